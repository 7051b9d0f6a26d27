import re

import pytest

from edgekit.reporting.charts import HEIGHT, WIDTH, Axis, Dot, curve_chart, dot_chart, frontier


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


def test_dots_are_inside_and_up_is_more() -> None:
    dots = [Dot("2", 2.0, 30.0, "refused"), Dot("1", 1.0, 10.0, "chosen")]
    chart = dot_chart("A & B", dots, Axis.around("", [1.0, 2.0]), Axis.around("", [10.0, 30.0]), budget=20.0)
    circles = re.findall(r'<circle class="([a-z ]+)" cx="([\d.]+)" cy="([\d.]+)"', chart)
    assert [style for style, *_ in circles] == ["dot refused", "dot chosen"], "the last one stands on top"
    (_, right, upper), (_, left, lower) = circles
    assert 0 < float(left) < float(right) < WIDTH
    assert 0 < float(upper) < float(lower) < HEIGHT
    (budget,) = re.findall(r'<line class="budget" x1="[\d.]+" y1="([\d.]+)"', chart)
    assert float(budget) == pytest.approx((float(upper) + float(lower)) / 2, abs=0.1)
    assert 'aria-label="A &amp; B"' in chart


def test_what_is_below_the_axis_stands_at_its_lower_end() -> None:
    dots = [Dot("1", 1.0, 0.0, "refused"), Dot("2", 2.0, 90.0, "chosen")]
    chart = dot_chart("", dots, Axis("", 0, 3), Axis("", 90, 100), budget=None)
    heights = re.findall(r'<circle class="[a-z ]+" cx="[\d.]+" cy="([\d.]+)"', chart)
    assert heights[0] == heights[1]


def test_the_frontier_is_what_nothing_beats() -> None:
    points = [(3.0, 9.0), (1.0, 5.0), (2.0, 4.0), (2.0, 7.0), (4.0, 9.0)]
    assert frontier(points) == [1, 3, 0]
    assert frontier([(1.0, 5.0), (1.0, 6.0), (1.0, 4.0)]) == [1]


def test_curves_have_a_legend() -> None:
    axis = Axis("", 0, 10)
    chart = curve_chart("", {"one <i>": [(0, 0), (10, 10)], "other": [(1, 1), (2, 2)]}, axis, axis)
    assert chart.count("<polyline") == 2
    assert "one &lt;i&gt;" in chart
