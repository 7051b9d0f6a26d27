"""Labels that stand in another order than the model's classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

LEAST_SAMPLES = 3
LEAST_SHARE = 0.8
"""Of a label's samples that one other class answers: less is a confusion of the model's."""


@dataclass(frozen=True)
class Exchanged:
    """A label in whose place the original answers another one."""

    label: int
    answered: int
    count: int
    """How many samples of the label are answered so."""
    samples: int
    """How many samples have the label."""

    def __str__(self) -> str:
        return f"{self.count} of {self.samples} samples of class {self.label} as class {self.answered}"


def exchanged_labels(answers: Mapping[tuple[int, int | None], int]) -> tuple[Exchanged, ...]:
    """Labels that are answered as each other, in a circle: a pair, or more in turn.

    Names of sub-folders in the order of the alphabet, say, where the model has another one. A model that is bad at a
    class answers it as one that it finds; here no class of the circle is found.

    Args:
        answers: How many samples of a label, the first number, the original answers as the second; None is no class.

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
    """Whether one comes back to a label by going from answer to answer."""
    place = label
    for _ in others:
        if place not in others:
            return False
        place = others[place].answered
        if place == label:
            return True
    return False
