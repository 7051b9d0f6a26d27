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
        (0.4, ["light", "middling"], 1 / 6),  # for half of the heavy layer's work
        (0.0, ["heavy", "light", "middling"], 0.0),
    ],
)
def test_the_cheapest_that_leave_little_enough(left: float, in_float: list[str], remains: float) -> None:
    found, found_left = cheapest_in_float(NOISES, left)

    assert found == in_float
    assert found_left == pytest.approx(remains)


def test_a_layer_in_float_costs_a_hundredth_of_all_work_besides_its_own() -> None:
    """10 + 0.199 for one layer are less than 4.95 + 4.95 + 2 * 0.199 for two that add as much noise."""
    noises = {"one": LayerNoise(50, 10), "half": LayerNoise(25, 4.95), "other half": LayerNoise(25, 4.95)}

    assert cheapest_in_float(noises, 0.5) == (["one"], 0.5)


def test_no_layer_goes_where_none_adds_noise() -> None:
    assert cheapest_in_float({"a": LayerNoise(0, 5)}, 0.1) == ([], 1.0)


@pytest.mark.parametrize(("aims", "much"), [((0.5, 0.4), True), ((0.5, 0.5), False), ((0.55, 0.5), False)])
def test_whether_much_work_is_spared(aims: tuple[float, float], much: bool) -> None:
    assert spares_much_work(NOISES, aims) is much


@pytest.mark.parametrize(
    ("share", "in_float"),
    [
        (0.0, []),
        (0.25, ["small"]),  # 24 units of work are left: less than half of the 49
        (0.26, ["small", "middling"]),
        (1.0, ["small", "middling", "large"]),
    ],
)
def test_the_first_layers_whose_costs_are_a_share_of_all(share: float, in_float: list[str]) -> None:
    assert first_in_float({"small": 1.0, "middling": 49.0, "large": 50.0}, share) == in_float
