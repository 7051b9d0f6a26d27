"""How a candidate did: what its score is, and of several scores the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgekit.comparison.custom_metric import share_lost
from edgekit.comparison.meaning_accuracy import ANCHORS, BOXES, TEXT
from edgekit_quantize.search.margins import FEW_DECISIONS

LABELS = "accuracy"
AGREEMENT = "agreement"
EXPLAINED = "explained"
DIGITS = 9
"""Decimals of what was lost."""


@dataclass(frozen=True)
class HeadKept:
    """What an output keeps that stands beside the one that a candidate is judged by."""

    share: float
    """Of its decisions that are the float model's, of few the share that is expected; of an output that decides nothing
    the share of its power that is no error, or 1 where that is as much as a bundle needs."""
    decisions: int | None
    """How many there are; None of an output that decides nothing."""
    inside: bool = False
    """Whether they are the runs of a decoder inside the graph (:mod:`edgekit_quantize.search.other_ways`)."""

    @property
    def record(self) -> dict[str, Any]:
        """Plain data."""
        return {"kept": self.share, "decisions": self.decisions, **({"inside": True} if self.inside else {})}


@dataclass(frozen=True)
class Score:
    """How a candidate did."""

    metric: str
    """``accuracy``: labels found; ``boxes`` and ``characters``: the share that is the float model's, where it is known
    that outputs tell of these (:mod:`edgekit.comparison.meaning`); ``embeddings``: the rank correlation of cosines
    (:mod:`edgekit.comparison.embeddings.angles`), or what is explained of the outputs beside them, whichever is less;
    ``agreement``: positions of the first output with the float model's class, 0 where a class is lost
    (:mod:`edgekit.comparison.decisions.shared`); ``explained``: 1 - power of the error /
    variance of the float model's output, for the worst output, so that an answer that is the same for every sample
    scores 0 (:mod:`edgekit_quantize.search.variances`); else the name of the project's evaluation function."""
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
    """What the loss of a single class proves (:mod:`edgekit.comparison.decisions.recalls`); 0 without labels."""
    heads: Mapping[str, HeadKept] = field(default_factory=dict)
    """What other outputs keep, by name (:mod:`edgekit_quantize.search.choices_beside`), and the runs of a decoder, by
    its first choice (:mod:`edgekit_quantize.search.other_ways`): each has the whole budget."""
    head_weight: float = 1.0
    """What a share that a head loses counts as: the metric's budget over that of decisions, where they are not one."""
    samples: int | None = None
    """How many of the samples it was judged on, which told enough; None where all."""
    lost_class: str | None = None
    """What is left of a class whose loss alone makes the value 0, in words; None where none is lost."""

    @property
    def is_of_few(self) -> bool:
        """Whether it is a share of so little that one more or less weighs much."""
        return (
            self.count is not None and self.count < FEW_DECISIONS and self.metric in {AGREEMENT, ANCHORS, BOXES, TEXT}
        )

    @property
    def drop(self) -> float:
        """What was lost, without the last digits: 1 - 0.99 is a little more than 0.01.

        Of labels that is the share over all samples, or what the loss of a single class tells, whichever is more; of
        several heads that of the one that loses the most.
        """
        head = self._worst_head
        return self._own_drop if head is None else max(self._own_drop, self._lost(head))

    @property
    def head(self) -> str | None:
        """The output beside the first that sets :attr:`drop`; None where the metric itself does."""
        head = self._worst_head
        return head if head is not None and self._lost(head) > max(self._own_drop, 0.0) else None

    @property
    def share(self) -> float:
        """The value, or what the worst of the heads keeps, where both are shares of what the float model gives."""
        kept = [] if self.relative or self.metric == LABELS else [head.share for head in self.heads.values()]
        return min([self.value, *kept])

    @property
    def heads_record(self) -> dict[str, Any]:
        """What the heads keep, and which of them sets what is lost, as plain data; empty without heads."""
        if not self.heads:
            return {}
        kept = {name: head.record for name, head in self.heads.items()}
        return {**({} if self.head is None else {"head": self.head}), "heads": kept}

    @property
    def _own_drop(self) -> float:
        lost = share_lost(self.reference, self.value) if self.relative else self.reference - self.value
        return round(max(lost, self.class_drop) if self.class_drop else lost, DIGITS)

    @property
    def _worst_head(self) -> str | None:
        return min(self.heads, key=lambda name: self.heads[name].share, default=None)

    def _lost(self, head: str) -> float:
        return round((1 - self.heads[head].share) * self.head_weight, DIGITS)


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
    heads = {name: _together(head, of_others.heads.get(name)) for name, head in score.heads.items()}
    return replace(score, value=value, count=first + second, in_settings=in_settings, heads=heads)


def _together(head: HeadKept, of_others: HeadKept | None) -> HeadKept:
    if of_others is None:
        return head
    if head.decisions is None or of_others.decisions is None:
        return min(head, of_others, key=lambda each: each.share)
    count = head.decisions + of_others.decisions
    return HeadKept((head.share * head.decisions + of_others.share * of_others.decisions) / count, count)
