"""Which layers of a quantized model go back to float.

Of layers that compute with integers, those that leave little enough noise and cost the least; of layers whose weights
are only stored as integers, those with the largest errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

MUCH_WORK = 0.03
"""A share of the multiplications of all layers, :data:`OVERHEAD` included."""
NOISE_STEPS = 4000
"""Into how many steps noise is divided where layers are chosen."""
OVERHEAD = 0.01
"""What a layer in float costs beside its multiplications, as a share of those of all layers: numbers are turned into
integers and back around it."""


class LayerNoise(NamedTuple):
    """What a layer that computes with integers does to the outputs, and what it costs in float."""

    noise: float
    """Power that rounding its inputs adds to the outputs, in any unit."""
    work: float
    """Multiplications."""


class StoredCosts(NamedTuple):
    """What it costs to store the weights of layers in float, by name, in the order in which they go back to float."""

    by_error: Mapping[str, float]
    """1 for each layer, the largest error first."""
    by_size: Mapping[str, float]
    """Numbers of each; the largest error for its size first."""


def spares_much_work(noises: Mapping[str, LayerNoise], aims: tuple[float, float]) -> bool:
    """Whether far fewer multiplications are in float where the first of two shares of the noise is left."""
    total = sum(each.work for each in noises.values())
    few, more = (
        sum(noises[name].work + OVERHEAD * total for name in cheapest_in_float(noises, aim)[0]) for aim in aims
    )
    return more - few >= MUCH_WORK * total


def cheapest_in_float(noises: Mapping[str, LayerNoise], left: float) -> tuple[list[str], float]:
    """The layers that cost the least in float and leave at most a share of the noise, and what is left.

    The knapsack problem's other half: what is taken has to reach a sum, by dynamic programming over steps of the noise.
    """
    total = sum(each.noise for each in noises.values())
    if not total:
        return [], 1.0
    overhead = OVERHEAD * sum(each.work for each in noises.values())
    steps = {name: int(each.noise / total * NOISE_STEPS) for name, each in noises.items()}
    goal = min(max(0, math.ceil(round((1 - left) * NOISE_STEPS, 6))), sum(steps.values()))
    costs = np.full(goal + 1, np.inf)  # of layers that take away at least this number of steps
    costs[0] = 0.0
    takes = {}
    for name, each in noises.items():
        with_it = costs[np.maximum(np.arange(goal + 1) - steps[name], 0)] + each.work + overhead
        takes[name], costs = with_it < costs, np.minimum(costs, with_it)
    chosen: list[str] = []
    for name in reversed(takes):
        if takes[name][goal]:
            chosen.insert(0, name)
            goal = max(goal - steps[name], 0)
    return chosen, max(total - sum(noises[name].noise for name in chosen), 0.0) / total


def first_in_float(costs: Mapping[str, float], share: float) -> list[str]:
    """The layers in front whose costs are a share of the sum of all, without those of which less than half fits in."""
    left = share * sum(costs.values())
    chosen = []
    for layer, cost in costs.items():
        if cost / 2 <= left:
            chosen.append(layer)
            left -= cost
    return chosen
