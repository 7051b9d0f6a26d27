import re

import pytest

from edgekit.reporting.charts import HEIGHT, WIDTH, Axis, curve_chart, point_chart


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (Axis("", 0, 100), [0, 20, 40, 60, 80, 100]),
        (Axis("", 0.1, 1.4), [0.5, 1.0]),
        (Axis("", 0.9, 11, logarithmic=True), [1, 2, 5, 10]),
        (Axis("", 0.5, 2000, logarithmic=True), [1, 10, 100, 1000]),
    ],
)
def test_ticks_are_round(axis: Axis, ticks: list[float]) -> None:
    assert axis.ticks() == pytest.approx(ticks)


@pytest.mark.parametrize("figures", [[3.0], [0.0], [-2.0, 5.0]])
def test_all_figures_have_room(figures: list[float]) -> None:
    axis = Axis.around("", figures)
    assert all(0 < axis.share(figure) < 1 for figure in figures)
    assert len(axis.ticks()) >= 2


def test_equal_ratios_are_equally_far_apart() -> None:
    axis = Axis.around("", [1.0, 100.0], logarithmic=True)
    assert axis.share(10) - axis.share(1) == pytest.approx(axis.share(100) - axis.share(10))


def test_points_are_inside_and_up_is_more() -> None:
    points = [(1.0, 10.0), (2.0, 30.0)]
    chart = point_chart("A & B", points, Axis.around("", [1.0, 2.0]), Axis.around("", [10.0, 30.0]), chosen=0)
    circles = re.findall(r'<circle class="([a-z ]+)" cx="([\d.]+)" cy="([\d.]+)"', chart)
    assert [style for style, *_ in circles] == ["dot", "dot chosen"], "what was chosen is drawn last"
    (_, right, upper), (_, left, lower) = circles
    assert 0 < float(left) < float(right) < WIDTH
    assert 0 < float(upper) < float(lower) < HEIGHT
    assert 'aria-label="A &amp; B"' in chart


def test_curves_have_a_legend() -> None:
    axis = Axis("", 0, 10)
    chart = curve_chart("", {"one <i>": [(0, 0), (10, 10)], "other": [(1, 1), (2, 2)]}, axis, axis)
    assert chart.count("<polyline") == 2
    assert "one &lt;i&gt;" in chart
