"""Chooses the layers of a quantized model that go back to float.

Of the layers that compute with integers, this is the cheapest set that reduces the noise sufficiently; of the layers
whose weights are only stored as integers, those with the largest errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

MUCH_WORK = 0.03
"""The difference in work, including :data:`OVERHEAD`, that counts as much: a share of all layers' multiplications."""
NOISE_STEPS = 4000
"""The number of steps into which the noise is discretized for the choice of layers."""
OVERHEAD = 0.01
"""The cost of a layer in float in addition to its multiplications, as a share of the multiplications of all layers:
numbers are converted to integers and back around it."""


class LayerNoise(NamedTuple):
    """The noise that a layer that computes with integers adds to the outputs, and its cost in float."""

    noise: float
    """The power that rounding its inputs adds to the outputs, in any unit."""
    work: float
    """The number of its multiplications."""


class StoredCosts(NamedTuple):
    """The costs of storing layers' weights in float, by name, in the order in which layers go back to float."""

    by_error: Mapping[str, float]
    """The cost 1 for each layer, the largest error first."""
    by_size: Mapping[str, float]
    """The number of weights of each layer, the largest error relative to its size first."""


def spares_much_work(noises: Mapping[str, LayerNoise], aims: tuple[float, float]) -> bool:
    """Whether far fewer multiplications are in float with the first remaining share of the noise than with the second.

    Args:
        noises: The noise and the cost in float of each layer.
        aims: Two shares of the noise that remain at most, the larger one first.
    """
    total = sum(each.work for each in noises.values())
    few, more = (
        sum(noises[name].work + OVERHEAD * total for name in cheapest_in_float(noises, aim)[0]) for aim in aims
    )
    return more - few >= MUCH_WORK * total


def cheapest_in_float(noises: Mapping[str, LayerNoise], left: float) -> tuple[list[str], float]:
    """The cheapest layers in float that leave at most the share ``left`` of the noise, and the share that remains.

    This is the covering version of the knapsack problem: the noise of the chosen layers has to reach a sum. It is
    solved by dynamic programming over steps of the noise.
    """
    total = sum(each.noise for each in noises.values())
    if not total:
        return [], 1.0
    overhead = OVERHEAD * sum(each.work for each in noises.values())
    steps = {name: int(each.noise / total * NOISE_STEPS) for name, each in noises.items()}
    goal = min(max(0, math.ceil(round((1 - left) * NOISE_STEPS, 6))), sum(steps.values()))
    costs = np.full(goal + 1, np.inf)  # least cost of layers that remove at least this number of steps
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
    """The first layers whose costs make up a share of the total; layers of which less than half fits are skipped."""
    left = share * sum(costs.values())
    chosen = []
    for layer, cost in costs.items():
        if cost / 2 <= left:
            chosen.append(layer)
            left -= cost
    return chosen
