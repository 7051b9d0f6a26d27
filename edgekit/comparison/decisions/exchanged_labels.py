"""Labels that stand in another order than the model's classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

LEAST_SAMPLES = 3
LEAST_SHARE = 0.8
"""The least share of a label's samples that are answered as one other class; less is confusion of the model's own."""


@dataclass(frozen=True)
class Exchanged:
    """A label whose samples the original answers as another class."""

    label: int
    answered: int
    count: int
    """How many samples of the label are answered as that class."""
    samples: int
    """How many samples have the label."""

    def __str__(self) -> str:
        return f"{self.count} of {self.samples} samples of class {self.label} as class {self.answered}"


def exchanged_labels(answers: Mapping[tuple[int, int | None], int]) -> tuple[Exchanged, ...]:
    """Returns labels that are answered as each other in a cycle: a pair, or more.

    A cause is sub-folders in alphabetical order where the model's classes have another order. A model that is bad at a
    class answers it as a class that it finds; of a cycle, the model finds no class.

    Args:
        answers: How many samples there are for each pair of a label and the class that the original answers; None is no
            class.

    Returns:
        The labels, in order; empty where none are exchanged.
    """
    samples: Counter[int] = Counter()
    for (label, _), count in answers.items():
        samples[label] += count
    others = {
        label: Exchanged(label, answer, count, samples[label])
        for (label, answer), count in answers.items()
        if answer is not None
        and answer != label
        and samples[label] >= LEAST_SAMPLES
        and count >= LEAST_SHARE * samples[label]
    }
    return tuple(others[label] for label in sorted(others) if _returns(label, others))


def _returns(label: int, others: Mapping[int, Exchanged]) -> bool:
    """Whether following the answers from a label leads back to it."""
    place = label
    for _ in others:
        if place not in others:
            return False
        place = others[place].answered
        if place == label:
            return True
    return False
