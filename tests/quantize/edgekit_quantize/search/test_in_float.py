"""Which layers go back to float."""

from __future__ import annotations

import pytest

from edgekit_quantize.search.in_float import LayerNoise, cheapest_in_float, first_in_float, spares_much_work

NOISES = {"heavy": LayerNoise(10, 99), "light": LayerNoise(30, 1), "middling": LayerNoise(20, 50)}


@pytest.mark.parametrize(
    ("left", "in_float", "remains"),
    [
        (1.0, [], 1.0),
        (0.5, ["light"], 0.5),
        (0.4, ["light", "middling"], 1 / 6),  # for half of the heavy one's work
        (0.0, ["heavy", "light", "middling"], 0.0),
    ],
)
def test_the_cheapest_that_leave_little_enough(left: float, in_float: list[str], remains: float) -> None:
    found, found_left = cheapest_in_float(NOISES, left)

    assert found == in_float
    assert found_left == pytest.approx(remains)


def test_no_layer_goes_where_none_adds_noise() -> None:
    assert cheapest_in_float({"a": LayerNoise(0, 5)}, 0.1) == ([], 1.0)


@pytest.mark.parametrize(("aims", "much"), [((0.5, 0.4), True), ((0.5, 0.5), False), ((0.55, 0.5), False)])
def test_whether_much_work_is_spared(aims: tuple[float, float], much: bool) -> None:
    assert spares_much_work(NOISES, aims) is much


@pytest.mark.parametrize(
    ("share", "in_float"),
    [
        (0.0, []),
        (0.25, ["small"]),  # 24 are left: less than half of the 49
        (0.26, ["small", "middling"]),
        (1.0, ["small", "middling", "large"]),
    ],
)
def test_the_first_layers_whose_costs_are_a_share_of_all(share: float, in_float: list[str]) -> None:
    assert first_in_float({"small": 1.0, "middling": 49.0, "large": 50.0}, share) == in_float
