"""What in an output is a decision, how many decisions two models share, and which class loses the most.

A decision is a class at a position: of a picture, of each of its pixels, of a token. Where one class has most
positions, the share of equal decisions says little of the others: a class with one pixel in a hundred may vanish, and
99 % are equal. So each class also counts alone, by the overlap of its positions in both models: intersection over
union, which is what segmentation is measured by (Everingham et al., The PASCAL Visual Object Classes Challenge, 2010).

If nothing shows that numbers are scores, they may be a regression's, such as the coordinates of key points. The largest
of such numbers often has the same index in every sample, whatever becomes of the others. Their decisions count only if
the numbers may be scores, and if giving the most frequent answer everywhere would not be right nearly everywhere.

Of tags that do not exclude each other the largest says little: it stays the largest when all are halved, and then no
tag is found any more. So each tag is a yes-or-no decision as well. At positions where both models are sure that no tag
applies, the largest is no decision, and does not count.

Maps of each class, as of organs that overlap, have most of their power in the class that is everywhere: a lesion of
0.1 % of the pixels has less power than the error that 20 dB allow.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from edgekit.comparison.decisions.class_overlap import CROSSING, FEWEST, UNSURE, ClassAccuracy, overlaps
from edgekit.comparison.decisions.maps import MapCount
from edgekit.comparison.decisions.sure_classes import SureClassCount

LARGEST_RANK_WITH_CLASSES = 3
"""Outputs up to this rank may hold scores along their last axis; those above it are maps and pictures, unless the
graph tells along which axis classes lie."""
NEARLY_ALL = 0.95
"""If at least this share of the decisions is one answer, the decisions only show that this answer stays."""
PAIR = 2
"""The number of classes at which one class's probability ranks samples."""
SUM_TOLERANCE = 1e-2
"""How far from 1 a sum of probabilities may be that are quantized, or of half precision."""


ONE_SIDED = 1.645
"""A count is more than this many standard deviations below its mean once in 20 times."""


def beyond_luck(changed: float) -> float:
    """Returns the counted changes less what luck explains in 19 of 20 cases, by Poisson's standard deviation."""
    return max(0.0, changed - ONE_SIDED * math.sqrt(changed))


def may_be_there(*models: np.ndarray) -> np.ndarray:
    """Returns the positions at which at least one of the models is not sure that no tag applies.

    Args:
        models: Probabilities of each model, ``[..., tags]`` of one shape.
    """
    unsure: np.ndarray = np.any([~(each <= UNSURE[0]).all(axis=-1) for each in models], axis=0)
    return unsure


class DecidedBy(StrEnum):
    """What in an output is a decision."""

    LARGEST = "largest"
    """Which entry along an axis is the largest one."""
    CROSSING = "crossing"
    """Whether an entry is more than a half."""
    NUMBER = "number"
    """The entry itself: the number of a class."""


@dataclass(frozen=True)
class Decision:
    """What counts as a decision in an output."""

    by: DecidedBy = DecidedBy.LARGEST
    axis: int = -1
    """Along which axis classes lie, for :attr:`DecidedBy.LARGEST`."""
    is_known: bool = False
    """Whether the graph tells the classes, by a Softmax or an ArgMax; else the output's shape suggests them."""
    are_scores: bool = False
    """Whether the numbers are known to be scores. Others that are never negative are amounts, unless they add up to 1:
    coordinates, distances, depths, of which the largest is no decision."""
    independent: bool = False
    """Whether each number is a probability of its own, as a Sigmoid gives it. Several classes may apply at once, or
    none, so that whether each number is more than a half is a decision, as well as which one is the largest."""
    named: bool = False
    """Whether :attr:`independent` numbers are those of the classes that have names."""
    is_map: bool = False
    """Whether :attr:`independent` numbers are maps, one for each entry of :attr:`axis`: what a picture's pixels show,
    or its colors. What each map finds is reported, and never makes up for the signal."""
    are_channels: bool = False
    """Whether :attr:`axis` holds the channels of a convolution for pictures or volumes, and nothing tells what they
    are: logits of classes, or colors, or a flow. The largest channel is no decision; changes of it where the original
    is sure are reported (:mod:`edgekit.comparison.decisions.sure_classes`)."""
    one_each: bool = False
    """Whether there is one number for each position of a sequence. If sequences have several lengths, the numbers are
    no classes, and which position has the largest one is no decision."""


class DecisionCount:
    """Counts the decisions that two models share.

    Args:
        decision: What counts as a decision, as far as the output's shape allows; None if nothing does.
        quantized: Whether the output's 8-bit integers are numbers that were quantized, and not labels, say.
    """

    def __init__(self, decision: Decision | None, *, quantized: bool = False) -> None:
        self._decision = decision
        self._quantized = quantized
        self._count = self._same = 0
        self._answers = np.zeros((2, 2), int)
        self._in_reference: Counter[int] = Counter()
        self._in_built: Counter[int] = Counter()
        self._in_both: Counter[int] = Counter()
        self._yes_in_reference: Counter[int] = Counter()
        self._yes_in_built: Counter[int] = Counter()
        self._yes_in_both: Counter[int] = Counter()
        self._maps = MapCount()
        self._sure = SureClassCount()
        self._classes = 0
        self._lengths: set[int] = set()
        self._may_be_amounts = decision is not None and not decision.is_known and not decision.are_scores
        self._add_up = True

    def add(self, reference: np.ndarray, built: np.ndarray) -> None:
        """Takes an output of the original and of the built model for one more sample, of one shape."""
        decision = self._decision
        if decision is None:
            return
        if decision.by is DecidedBy.NUMBER:
            self._add_classes(reference, built)
            return
        if decision.is_map or decision.are_channels:
            count = self._sure if decision.are_channels else self._maps
            if reference.dtype.kind == "f":
                count.add(*(np.moveaxis(each, decision.axis, -1) for each in (reference, built)))
            return
        are_scores = reference.dtype.kind == "f" or self._quantized
        if not are_scores or not 1 <= reference.ndim <= (
            reference.ndim if decision.is_known else LARGEST_RANK_WITH_CLASSES
        ):
            return
        if decision.by is DecidedBy.CROSSING:
            self._add_answers(reference > CROSSING, built > CROSSING)
        elif reference.shape[decision.axis] > 1:
            self._classes = reference.shape[decision.axis]
            self._lengths.add(self._classes)
            self._note_amounts(reference, decision.axis)
            along = [np.moveaxis(each, decision.axis, -1) for each in (reference, built)]
            largest = [each.argmax(axis=-1) for each in along]
            if decision.independent and reference.dtype.kind == "f":
                tags = [each > CROSSING for each in along]
                self._add_answers(*tags)
                self._add_tags(*tags)
                some = may_be_there(*along)
                largest = [each[some] for each in largest]
            self._add_classes(*largest)

    def shared(self) -> tuple[float | None, int | None]:
        """Returns the share of decisions that are the same, and their number; None twice without decisions.

        Of yes and no, the answer that is rarer in the original counts wherever a model gives it, as with boxes: if both
        models together give it at least 20 times, or the original at least 10 times. If an answer is rare, always
        giving the other one is right nearly everywhere. Of independent classes the lower of two shares counts: that of
        the largest numbers, or that of what each class says.
        """
        shares = [(self._same / self._count, self._count)] if self._decides() else []
        rarer = int(self._answers.sum(axis=1).argmin())
        count = int(self._answers[rarer].sum() + self._answers[:, rarer].sum())
        in_reference = int(self._answers[rarer].sum())
        if in_reference and max(count, 2 * in_reference) >= FEWEST:
            changed = int(self._answers[rarer, 1 - rarer] + self._answers[1 - rarer, rarer])
            shares.append((1 - changed / count, count))
        return min(shares, default=(None, None))

    def worst_class(self) -> ClassAccuracy | None:
        """Returns the class with the least overlap, or None if no class has enough positions.

        Lost classes that the graph or names declare come first.
        """
        if self._decision is None:
            return None
        if self._decision.is_map:
            return self._maps.worst(named=self._decision.named)
        if self._decision.are_channels:
            return self._sure.worst()
        largest = (self._in_reference, self._in_built, self._in_both, self._decision.is_known)
        tags = (self._yes_in_reference, self._yes_in_built, self._yes_in_both, self._decision.named)
        classes = [*overlaps(*tags), *(overlaps(*largest) if self._decides() else ())]
        return min(
            classes, key=lambda each: (not (each.is_known and each.is_lost), each.overlap, each.number), default=None
        )

    @property
    def may_decide(self) -> bool:
        """Whether the original's numbers are, or may be, scores."""
        if self._count == 0 or self._decision is None or (self._decision.one_each and len(self._lengths) > 1):
            return False
        return self._decision.is_known or self._decision.are_scores or self._add_up or not self._may_be_amounts

    @property
    def tells_one(self) -> bool:
        """Whether nearly all the original's decisions are equal, and nothing else says that its numbers are scores."""
        if self._decision is None or self._decision.is_known or self._decision.are_scores or self._count < FEWEST:
            return False
        return self.answers_one

    @property
    def answers_one(self) -> bool:
        """Whether the largest number of the original is nearly always the same one."""
        return 0 < self._count * NEARLY_ALL <= max(self._in_reference.values(), default=0)

    @property
    def says_little(self) -> bool:
        """Whether there are no decisions, or nearly all are the same one of two classes that exclude each other.

        With two classes an app may compare a probability with any bound; with more it takes the largest.
        """
        independent = self._decision is not None and self._decision.independent
        return self.shared()[0] is None or (self.answers_one and not independent and self._classes == PAIR)

    @property
    def only_answer(self) -> int | None:
        """What the original decides at all positions, :data:`FEWEST` or more, if the graph shows decisions.

        A class, or 1 for yes and 0 for no; None if there are several answers, or fewer positions.
        """
        if self._decision is None:
            return None
        if self._decision.by is DecidedBy.CROSSING:
            found = {answer: int(count) for answer, count in enumerate(self._answers.sum(axis=1)) if count}
        else:
            found = dict(self._in_reference) if self._decision.is_known else {}
        return next(iter(found)) if len(found) == 1 and sum(found.values()) >= FEWEST else None

    @property
    def tells_classes(self) -> bool:
        """Whether the graph declares the classes that are counted."""
        return self._decision is not None and self._decision.is_known and self._count > 0

    def _decides(self) -> bool:
        return self.may_decide and not self.tells_one and not self._is_one_of_few

    @property
    def _is_one_of_few(self) -> bool:
        """Whether fewer than :data:`FEWEST` decisions are all the same, of numbers that need not be scores."""
        known = self._decision is not None and (self._decision.is_known or self._decision.are_scores)
        return not known and self._count < FEWEST and len(self._in_reference) == 1

    def _add_answers(self, reference: np.ndarray, built: np.ndarray) -> None:
        np.add.at(self._answers, (reference.astype(int), built.astype(int)), 1)

    def _add_tags(self, reference: np.ndarray, built: np.ndarray) -> None:
        """Takes which classes, along the last axis, each model finds."""
        for counter, found in (
            (self._yes_in_reference, reference),
            (self._yes_in_built, built),
            (self._yes_in_both, reference & built),
        ):
            counts = found.reshape(-1, found.shape[-1]).sum(axis=0)
            counter.update({int(number): int(counts[number]) for number in np.flatnonzero(counts)})

    def _add_classes(self, reference: np.ndarray, built: np.ndarray) -> None:
        same = reference == built
        self._count += same.size
        self._same += int(np.count_nonzero(same))
        for counter, classes in (
            (self._in_reference, reference),
            (self._in_built, built),
            (self._in_both, reference[same]),
        ):
            numbers, counts = np.unique(classes, return_counts=True)
            counter.update({int(number): int(count) for number, count in zip(numbers, counts, strict=True)})

    def _note_amounts(self, reference: np.ndarray, axis: int) -> None:
        """Notes whether numbers that are never negative may be shares."""
        if not self._may_be_amounts:
            return
        if reference.dtype.kind != "f" or reference.min(initial=0.0) < 0:
            self._may_be_amounts = False
            return
        sums = reference.astype(np.float64).sum(axis=axis)
        self._add_up = self._add_up and bool((np.abs(sums - 1) < SUM_TOLERANCE).all())
