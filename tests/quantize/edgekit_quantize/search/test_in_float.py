"""Which layers go back to float."""

from __future__ import annotations

import pytest

from edgekit_quantize.search.in_float import InFloat, LayerNoise, cheapest_in_float, integers_remain


@pytest.mark.parametrize(
    ("left", "computed", "weights", "remains"),
    [
        (1.0, [], [], 1.0),
        (0.7, ["light"], [], 0.7),  # half of what the heavy one's weights add, for a hundredth of its work
        (0.5, [], ["light"], 0.4),  # its weights add as much again, and are small
        (0.2, [], ["light", "only stored"], 0.2),
        (0.0, [], ["heavy", "light", "only stored"], 0.0),
    ],
)
def test_weights_go_back_to_float_too_where_they_add_the_noise(
    left: float, computed: list[str], weights: list[str], remains: float
) -> None:
    noises = {
        "heavy": LayerNoise(10, 99, weights_noise=10, size=50),
        "light": LayerNoise(30, 1, weights_noise=30, size=1),
        "only stored": LayerNoise(0, 0, weights_noise=20, size=49),
    }

    in_float, found = cheapest_in_float(noises, left)

    assert in_float == InFloat(computed, weights)
    assert found == pytest.approx(remains)


def test_few_weights_are_float_wherever_their_layer_computes_in_float() -> None:
    noises = {"few": LayerNoise(10, 1, weights_noise=90, size=9, stored=False), "many": LayerNoise(100, 1, size=900)}

    in_float, left = cheapest_in_float(noises, 0.5)

    assert in_float == InFloat(["few"], [])
    assert left == pytest.approx(0.5)


def test_a_layer_that_only_stores_its_weights_is_none_that_computes_with_integers() -> None:
    noises = {"computes": LayerNoise(1, 1), "stores": LayerNoise(0, 0, weights_noise=1, size=600)}

    assert integers_remain(noises, InFloat([], ["stores"]))
    assert not integers_remain(noises, InFloat(["computes"], []))


@pytest.mark.parametrize(
    ("in_float", "text"),
    [
        (InFloat(["a"], []), "1 layer in float"),
        (InFloat(["a", "b"], ["c"]), "3 layers in float, 1 with float weights"),
    ],
)
def test_a_set_says_how_many_layers_it_has(in_float: InFloat, text: str) -> None:
    assert str(in_float) == text
