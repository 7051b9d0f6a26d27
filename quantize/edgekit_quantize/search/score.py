"""How a candidate did: what its score is, and of several scores the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgekit.comparison.custom_metric import share_lost
from edgekit.comparison.meaning import BOXES, TEXT

LABELS = "accuracy"
AGREEMENT = "agreement"
EXPLAINED = "explained"
FEW_DECISIONS = 500
"""One of 500 is a fifth of the usual budget of 1 %."""
DIGITS = 9
"""Decimals of what was lost."""


@dataclass(frozen=True)
class Score:
    """How a candidate did."""

    metric: str
    """``accuracy``: labels found; ``boxes`` and ``characters``: the share that is the float model's, where it is known
    that outputs tell of these (:mod:`edgekit.comparison.meaning`); ``embeddings``: the rank correlation of cosines
    (:mod:`edgekit.comparison.embeddings`), or what is explained of the outputs beside them, whichever is less;
    ``agreement``: positions of the first output with the float model's class, 0 where a class is lost
    (:mod:`edgekit.comparison.decisions`), or those of an output beside it that loses more than may change
    (:mod:`edgekit_quantize.search.choices_beside`), which limit this as well; ``explained``: 1 - power of the
    error / variance of the float model's output, for the worst output, so that an answer that is the same for every
    sample scores 0 (:mod:`edgekit_quantize.search.variances`); else the name of the project's evaluation function."""
    value: float
    """0 to 1, but for the project's function."""
    reference: float
    """What the float model scores."""
    sqnr_db: float
    """Power of the float model's output over that of the error, in decibels, for the worst output."""
    count: int | None = None
    """How many labels, boxes, characters or decisions the value is a share of; None where it is none of these."""
    relative: bool = False
    """Whether what is lost is told as a share of the float model's value, for want of a scale."""
    in_settings: Mapping[str, float] = field(default_factory=dict)
    """Its value in each of the settings that it was judged in, by what executed it; ``value`` is that of the worst."""
    complete: bool = True
    """Whether it was judged in all of its settings, and on as many samples as its metric needs."""
    class_drop: float = 0.0
    """What the loss of a single class is evidence of (:mod:`edgekit.comparison.recalls`); 0 without labels."""
    head: str | None = None
    """The output beside the first whose decisions the value is a share of; None where it is no such share."""

    @property
    def is_of_few(self) -> bool:
        """Whether it is a share of so little that one more or less weighs much."""
        return self.count is not None and self.count < FEW_DECISIONS and self.metric in {AGREEMENT, BOXES, TEXT}

    @property
    def drop(self) -> float:
        """What was lost, without the last digits: 1 - 0.99 is a little more than 0.01.

        Of labels that is the share over all samples, or what the loss of a single class tells, whichever is more.
        """
        lost = share_lost(self.reference, self.value) if self.relative else self.reference - self.value
        return round(max(lost, self.class_drop) if self.class_drop else lost, DIGITS)


def worst_of(scores: Sequence[Score]) -> Score:
    """The worst of a candidate's scores in several settings, with its value in each."""
    worst = max(scores, key=lambda score: (score.drop, -score.sqnr_db))
    values = {name: value for score in scores for name, value in score.in_settings.items()}
    return replace(worst, in_settings=values, complete=True)


def with_more(score: Score, of_others: Score) -> Score:
    """A share that was counted on some samples and on others; the signal-to-noise ratio stays that of the first.

    Candidates are compared by that ratio, which all have of the same samples.
    """
    first, second = score.count or 0, of_others.count or 0
    value = (score.value * first + of_others.value * second) / max(first + second, 1)
    in_settings = dict.fromkeys(score.in_settings, value)
    return replace(score, value=value, count=first + second, in_settings=in_settings)
