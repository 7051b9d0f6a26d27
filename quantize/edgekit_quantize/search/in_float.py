"""Which layers of a quantized model go back to float: those that leave little enough noise and cost the least."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

MUCH_WORK = 0.03
"""A share of the multiplications of all layers, :data:`OVERHEAD` included."""
NOISE_STEPS = 4000
"""Into how many steps noise is divided where layers are chosen."""
WEIGHT_OF_SIZE = 1.0
"""What it costs to keep all weights float, as a share of the multiplications of all layers."""
OVERHEAD = 0.01
"""What a layer in float costs beside its multiplications, as a share of those of all layers: numbers are turned into
integers and back around it."""


class LayerNoise(NamedTuple):
    """What a layer of a quantized model does to the outputs, and what it costs in float."""

    noise: float
    """Power that rounding its inputs adds to the outputs, in any unit; 0 where it computes in float."""
    work: float
    """Multiplications; 0 where it computes in float."""
    weights_noise: float = 0.0
    """Power that rounding its weights adds."""
    size: float = 0.0
    """Numbers in its weights."""
    stored: bool = True
    """Whether they stay integers where it computes in float."""


class InFloat(NamedTuple):
    """The layers of a candidate that go back to float."""

    computed: Collection[str] = ()
    """From weights stored as integers."""
    weights: Collection[str] = ()
    """From float weights."""

    def __str__(self) -> str:
        count = len(self.computed) + len(self.weights)
        text = f"{count} layer{'s' if count != 1 else ''} in float"
        return f"{text}, {len(self.weights)} with float weights" if self.weights else text


def spares_much_work(noises: Mapping[str, LayerNoise], aims: tuple[float, float]) -> bool:
    """Whether far fewer multiplications are in float where the first of two shares of the noise is left."""
    total = sum(each.work for each in noises.values())

    def work(in_float: InFloat) -> float:
        chosen = (name for names in in_float for name in names if noises[name].noise)
        return sum(noises[name].work + OVERHEAD * total for name in chosen)

    few, more = (work(cheapest_in_float(noises, aim)[0]) for aim in aims)
    return more - few >= MUCH_WORK * total


def integers_remain(noises: Mapping[str, LayerNoise], in_float: InFloat) -> bool:
    """Whether a layer is left that computes with integers."""
    return any(each.noise and name not in {*in_float.computed, *in_float.weights} for name, each in noises.items())


class _Option(NamedTuple):
    """One way to take a layer's noise away."""

    noise: float
    cost: float
    """In multiplications."""
    weights: bool
    """Whether its weights are float too."""


def _options(each: LayerNoise, work: float, size: float) -> list[_Option]:
    """The ways to take a layer's noise away.

    Args:
        each: The layer.
        work: The multiplications of all layers.
        size: The numbers in the weights of all layers.
    """
    computed = each.work + OVERHEAD * work if each.noise else 0.0
    all_of_it = each.noise + each.weights_noise
    if not each.stored:
        return [_Option(all_of_it, computed, weights=False)]
    options = [_Option(each.noise, computed, weights=False)] if each.noise else []
    if each.weights_noise:
        options.append(_Option(all_of_it, computed + WEIGHT_OF_SIZE * work * each.size / size, weights=True))
    return options


def cheapest_in_float(noises: Mapping[str, LayerNoise], left: float) -> tuple[InFloat, float]:
    """The layers that cost the least in float and leave at most a share of the noise, and what is left.

    The multiple-choice knapsack problem's other half: what is taken has to reach a sum, by dynamic programming over
    steps of the noise.
    """
    total = sum(each.noise + each.weights_noise for each in noises.values())
    if not total:
        return InFloat(), 1.0
    work, size = sum(each.work for each in noises.values()), sum(each.size for each in noises.values())
    options = {name: _options(each, work, size) for name, each in noises.items()}
    steps = {name: [int(each.noise / total * NOISE_STEPS) for each in some] for name, some in options.items()}
    goal = min(
        max(0, math.ceil(round((1 - left) * NOISE_STEPS, 6))), sum(max(some, default=0) for some in steps.values())
    )
    costs = np.full(goal + 1, np.inf)  # of layers that take away at least this number of steps
    costs[0] = 0.0
    takes: dict[str, np.ndarray] = {}
    for name, some in options.items():
        ways = [costs]
        for option, taken in zip(some, steps[name], strict=True):
            ways.append(costs[np.maximum(np.arange(goal + 1) - taken, 0)] + option.cost)
        takes[name], costs = np.argmin(ways, axis=0), np.min(ways, axis=0)
    computed: list[str] = []
    weights: list[str] = []
    total_left = total
    for name in reversed(takes):
        way = int(takes[name][goal])
        if way:
            option = options[name][way - 1]
            (weights if option.weights else computed).insert(0, name)
            total_left -= option.noise
            goal = max(goal - steps[name][way - 1], 0)
    return InFloat(computed, weights), max(total_left, 0.0) / total
