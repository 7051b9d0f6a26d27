"""The score of a candidate, and the worst of several scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgekit.comparison.custom_metric import share_lost
from edgekit.comparison.floors import LOSS_DIGITS
from edgekit.comparison.meaning_accuracy import ANCHORS, BOXES, PEAKS, TEXT
from edgekit_quantize.search.margins import FEW_DECISIONS

LABELS = "accuracy"
AGREEMENT = "agreement"
EXPLAINED = "explained"


@dataclass(frozen=True)
class HeadKept:
    """How much a candidate keeps of a further output, which its metric is not computed from."""

    share: float
    """The share of decisions that equal the float model's, or with few decisions the expected share; for an output that
    decides nothing, 1 - power of the error / power of the signal, or 1 if that is as much as a bundle needs."""
    decisions: int | None
    """The number of decisions; None for an output that decides nothing."""
    inside: bool = False
    """Whether the decisions are runs of a decoder inside the graph (:mod:`edgekit_quantize.search.other_ways`)."""

    @property
    def record(self) -> dict[str, Any]:
        """Plain data."""
        return {"kept": self.share, "decisions": self.decisions, **({"inside": True} if self.inside else {})}


@dataclass(frozen=True)
class Score:
    """The score of a candidate."""

    metric: str
    """``accuracy``: the share of labels found; ``boxes`` and ``characters``: the share that equals the float model's,
    if it is known that the outputs hold these (:mod:`edgekit.comparison.meaning`); ``embeddings``: the rank correlation
    of cosines (:mod:`edgekit.comparison.embeddings.angles`), or what is explained of the other outputs, whichever is
    less; ``agreement``: the share of positions of the first output with the float model's class, 0 if a class is lost
    (:mod:`edgekit.comparison.decisions.shared`); ``explained``: 1 - power of the error /
    variance of the float model's output, for the worst output, so that an answer that is the same for every sample
    scores 0 (:mod:`edgekit_quantize.search.variances`); else the name of the project's evaluation function."""
    value: float
    """0 to 1, except for the project's function."""
    reference: float
    """The float model's value."""
    sqnr_db: float
    """Power of the float model's output over that of the error, in decibels, for the worst output."""
    count: int | None = None
    """How many labels, boxes, characters or decisions the value is a share of; None for other metrics."""
    relative: bool = False
    """Whether the loss is given as a share of the float model's value, because the metric has no known scale."""
    in_settings: Mapping[str, float] = field(default_factory=dict)
    """The value in each setting in which the candidate was scored, by what executed it; ``value`` is that of the worst
    setting."""
    complete: bool = True
    """Whether the candidate was scored in all of its settings, and on as many samples as its metric needs."""
    class_drop: float = 0.0
    """The drop that the loss of a single class proves (:mod:`edgekit.comparison.decisions.recalls`); 0 without
    labels."""
    heads: Mapping[str, HeadKept] = field(default_factory=dict)
    """What the candidate keeps of further outputs, by name (:mod:`edgekit_quantize.search.choices_beside`), and of the
    runs of a decoder, by its first choice (:mod:`edgekit_quantize.search.other_ways`): each head has the whole
    budget."""
    head_weight: float = 1.0
    """The factor by which a head's loss is multiplied: the metric's budget over that of decisions, if they differ."""
    samples: int | None = None
    """The number of samples that the candidate was scored on, if these were enough; None if it was scored on all."""
    lost_class: str | None = None
    """A description of the class whose loss alone makes the value 0; None if no class is lost."""

    @property
    def is_of_few(self) -> bool:
        """Whether the value is a share of fewer than :data:`FEW_DECISIONS` decisions, so that each one weighs much."""
        return (
            self.count is not None
            and self.count < FEW_DECISIONS
            and self.metric in {AGREEMENT, ANCHORS, BOXES, PEAKS, TEXT}
        )

    @property
    def drop(self) -> float:
        """The loss, rounded to :data:`LOSS_DIGITS`, since 1 - 0.99 is a little more than 0.01 in floating point.

        For labels, this is the share lost over all samples, or the loss that a single class proves, whichever is more;
        with further heads, it is the loss of the metric or of the head that loses the most, whichever is more.
        """
        head = self._worst_head
        return self._own_drop if head is None else max(self._own_drop, self._lost(head))

    @property
    def head(self) -> str | None:
        """The name of the head that determines :attr:`drop`; None if the metric itself does."""
        head = self._worst_head
        return head if head is not None and self._lost(head) > max(self._own_drop, 0.0) else None

    @property
    def share(self) -> float:
        """The value, or the share that the worst head keeps if it is less.

        Accuracy by labels and values of the project's evaluation function are not compared with heads.
        """
        kept = [] if self.relative or self.metric == LABELS else [head.share for head in self.heads.values()]
        return min([self.value, *kept])

    @property
    def heads_record(self) -> dict[str, Any]:
        """What the heads keep, and which of them determines the drop, as plain data; empty without heads."""
        if not self.heads:
            return {}
        kept = {name: head.record for name, head in self.heads.items()}
        return {**({} if self.head is None else {"head": self.head}), "heads": kept}

    @property
    def _own_drop(self) -> float:
        lost = share_lost(self.reference, self.value) if self.relative else self.reference - self.value
        return round(max(lost, self.class_drop) if self.class_drop else lost, LOSS_DIGITS)

    @property
    def _worst_head(self) -> str | None:
        return min(self.heads, key=lambda name: self.heads[name].share, default=None)

    def _lost(self, head: str) -> float:
        return round((1 - self.heads[head].share) * self.head_weight, LOSS_DIGITS)


def worst_of(scores: Sequence[Score]) -> Score:
    """The worst of a candidate's scores in several settings, with its value in each."""
    worst = max(scores, key=lambda score: (score.drop, -score.sqnr_db))
    values = {name: value for score in scores for name, value in score.in_settings.items()}
    return replace(worst, in_settings=values, complete=True)


def with_more(score: Score, of_others: Score) -> Score:
    """The score with shares counted over its own samples and further ones.

    The signal-to-noise ratio stays that of ``score``: candidates are compared by it, so it has to be measured on the
    same samples for all of them.

    Args:
        score: The score on the first samples.
        of_others: The score on further samples.
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
