"""How many of its labels a single class loses, which the share over all samples cannot show.

If one sample in 200 is a fraud, a model that never says so finds 99.5% of the labels: it loses half of a budget of 1%.
A budget therefore holds for each class, too, as far as its samples prove anything. If the original finds ``k`` samples
of a class, a model that loses each of them with the probability ``p`` loses ``l`` or more with the probability of the
binomial tail, ``P(X ≥ l)``. A loss is evidence of the least ``p`` for which it is not improbable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

SURPRISE = 0.01
"""The probability below which a loss in one class is not chance; it is divided among the classes that are looked at."""
_STEPS = 40
"""The number of halvings of the interval from 0 to 1: twelve digits."""


@dataclass(frozen=True)
class ClassLoss:
    """The class whose losses are the strongest evidence of a regression."""

    index: int
    found: int
    """How many of its samples the original finds."""
    lost: int
    """How many fewer the built model finds."""
    drop: float
    """The least share of labels lost, 0 to 1, that explains the class's loss."""

    def __str__(self) -> str:
        return (
            f"class {self.index} is found in {self.found - self.lost} samples, by the original in {self.found}: such "
            f"a loss in one class is likely only if {self.drop:.2%} or more of all labels are lost"
        )

    def as_record(self) -> dict[str, float]:
        """Plain data for the manifest."""
        return {"class": self.index, "reference": self.found, "built": self.found - self.lost, "drop": self.drop}


def worst_class(original: Mapping[int, int], built: Mapping[int, int]) -> ClassLoss | None:
    """Returns the class whose losses are the strongest evidence of a regression, or None if no class lost samples.

    Args:
        original: How many samples of each class the original finds.
        built: How many samples of each class the built model finds.
    """
    classes = sum(found > 0 for found in original.values())
    losses = [
        ClassLoss(index, found, lost, explaining_drop(found, lost, classes))
        for index, found in original.items()
        if (lost := found - built.get(index, 0)) > 0
    ]
    return max(losses, key=lambda loss: loss.drop, default=None)


def explaining_drop(found: int, lost: int, classes: int) -> float:
    """Returns the least share of labels lost with which a class loses ``lost`` of ``found`` samples by chance.

    Args:
        found: How many samples of the class the original finds.
        lost: How many of these are lost; 1 or more.
        classes: How many classes are looked at.
    """
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _at_least(lost, found, middle) * classes < SURPRISE:
            low = middle
        else:
            high = middle
    return low


def _at_least(lost: int, found: int, share: float) -> float:
    """The probability that ``lost`` or more of ``found`` are lost, each with the probability ``share``."""
    logs = (
        math.lgamma(found + 1)
        - math.lgamma(fewer + 1)
        - math.lgamma(found - fewer + 1)
        + fewer * math.log(share)
        + (found - fewer) * math.log1p(-share)
        for fewer in range(lost)
    )
    return max(0.0, 1 - math.fsum(map(math.exp, logs)))
