"""Chooses a form for each weight: the frontier between the size of all weights and the noise that they add.

The noises of layers are assumed to add up, as small independent noises do. Then the allocations on the convex hull of
size and noise follow from each weight's own hull, by taking the steps in order of noise per byte saved (Shoham and
Gersho, Efficient bit allocation for an arbitrary set of quantizers, 1988).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Choice:
    """A form of one weight."""

    form: str
    bytes: float
    noise: float


@dataclass(frozen=True)
class Allocation:
    """A form for each weight, by the weights' names."""

    forms: Mapping[str, str]
    bytes: float
    noise: float


def frontier(choices: Mapping[str, Sequence[Choice]]) -> list[Allocation]:
    """The allocations on the convex hull of size and noise, from the largest to the smallest.

    Args:
        choices: The forms that each weight may have; at least one per weight.
    """
    hulls = {name: _hull(found) for name, found in choices.items()}
    steps = sorted(
        (
            ((after.noise - before.noise) / (before.bytes - after.bytes), place, name, before, after)
            for name, hull in hulls.items()
            for place, (before, after) in enumerate(pairwise(hull))
        ),
        key=lambda step: (step[0], step[2], step[1]),
    )
    forms = {name: hull[0].form for name, hull in hulls.items()}
    size = sum(hull[0].bytes for hull in hulls.values())
    noise = sum(hull[0].noise for hull in hulls.values())
    found = [Allocation(dict(forms), size, noise)]
    for _, _, name, before, after in steps:
        forms[name] = after.form
        size, noise = size - before.bytes + after.bytes, noise - before.noise + after.noise
        found.append(Allocation(dict(forms), size, noise))
    return found


def _hull(choices: Sequence[Choice]) -> list[Choice]:
    """The forms on the lower convex hull of noise over bytes, the one with the least noise first."""
    best: list[Choice] = []
    for choice in sorted(choices, key=lambda one: (one.bytes, one.noise)):
        if not best or choice.noise < best[-1].noise:
            best.append(choice)  # at least as large as those before, with less noise
    hull: list[Choice] = []
    for choice in best:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], choice):
            hull.pop()
        hull.append(choice)
    return hull[::-1]


def _slope(small: Choice, large: Choice) -> float:
    """How much less noise ``large`` has than ``small``, per additional byte."""
    return (small.noise - large.noise) / (large.bytes - small.bytes)
