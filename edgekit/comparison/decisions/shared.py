"""What in an output is a decision, how many of them two models share, and which class loses the most.

A decision is a class at a position: of a picture, of each of its pixels, of a token. Where one class has most
positions, the share of equal decisions says little of the others: a class with one pixel in a hundred may vanish, and
99 % are equal. So each class counts by itself too, by the overlap of its positions in both models: intersection over
union, which is what segmentation is measured by (Everingham et al., The PASCAL Visual Object Classes Challenge, 2010).

Where nothing tells that numbers are scores, they may be a regression's, such as the coordinates of key points. The
largest of those is often the same one in every sample, and stays so whatever the others become. Such decisions count if
the numbers may be scores, and if to give the most frequent answer everywhere would not be right nearly everywhere.

Of tags that do not exclude each other the largest says little: it stays the largest when all are halved, and then none
is found any more. So each of them is a yes or no as well. Where both models are sure that none is there, the largest
one decides nothing, and such positions do not count.

A map for each class, as of organs that overlap, has most of its power in the class that is everywhere: a lesion of
0.1 % of the pixels has less than the error that 20 dB allow.
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
"""The share of decisions that may be the same one before nothing but that one is told: what has to stay the same."""
PAIR = 2
"""Classes of which one's probability ranks samples."""
SUM_TOLERANCE = 1e-2
"""How far from 1 a sum of probabilities may be that are quantized, or half precision."""


ONE_SIDED = 1.645
"""Standard deviations below which a count lies once in 20 times."""


def beyond_luck(changed: float) -> float:
    """How many decisions change at least but once in 20 times, where so many were counted (Poisson's deviation)."""
    return max(0.0, changed - ONE_SIDED * math.sqrt(changed))


def may_be_there(*models: np.ndarray) -> np.ndarray:
    """At which positions one of the models is not sure that none of several tags is there.

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
    """The entry: the number of a class."""


@dataclass(frozen=True)
class Decision:
    """What decides in an output."""

    by: DecidedBy = DecidedBy.LARGEST
    axis: int = -1
    """Along which axis classes lie, for :attr:`DecidedBy.LARGEST`."""
    told: bool = False
    """Whether the graph tells the classes, by a Softmax or an ArgMax; else the output's shape suggests them."""
    are_scores: bool = False
    """Whether the numbers are known to be scores. Others that are never negative are amounts, unless they add up to 1:
    coordinates, distances, depths, of which the largest decides nothing."""
    independent: bool = False
    """Whether each number is a probability of its own, as a Sigmoid gives it. Several classes may be there at once, or
    none: beside the largest, what decides is whether each is more than a half."""
    named: bool = False
    """Whether the numbers of :attr:`independent` ones are those of the classes that have names."""
    is_map: bool = False
    """Whether :attr:`independent` ones are maps, one for each entry of :attr:`axis`: what a picture's pixels show, or
    its colours. Then what each map finds is told of, and never makes up for the signal."""
    are_channels: bool = False
    """Whether :attr:`axis` holds the channels of a convolution for pictures or volumes, and nothing tells what they
    are: logits of classes, or colours, or a flow. The largest decides nothing; that it changes where the original is
    sure of it is told (:mod:`edgekit.comparison.decisions.sure_classes`)."""
    one_each: bool = False
    """Whether there is one number for each position of a sequence. Where sequences have several lengths, these are no
    classes, and which position has the largest number decides nothing."""


class DecisionCount:
    """Counts the decisions that two models share.

    Args:
        decision: What decides, as far as the output's shape allows; None where nothing does.
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
        self._may_be_amounts = decision is not None and not decision.told and not decision.are_scores
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
            reference.ndim if decision.told else LARGEST_RANK_WITH_CLASSES
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
        """The share of decisions that are the same, and their number; None without any.

        Of yes and no those count that are rarer in the original: each model's, as with boxes, from 20 on, or where the
        original alone has 10, whatever becomes of them. Where there are few of them, to say nothing but the other would
        be right nearly everywhere. Of independent classes the largest ones
        count, or what each of them says, whichever stays the less.
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
        """The class with the least overlap, a lost one that is told first; None where none has enough positions."""
        if self._decision is None:
            return None
        if self._decision.is_map:
            return self._maps.worst(named=self._decision.named)
        if self._decision.are_channels:
            return self._sure.worst()
        largest = (self._in_reference, self._in_built, self._in_both, self._decision.told)
        tags = (self._yes_in_reference, self._yes_in_built, self._yes_in_both, self._decision.named)
        classes = [*overlaps(*tags), *(overlaps(*largest) if self._decides() else ())]
        return min(
            classes, key=lambda each: (not (each.told and each.is_lost), each.overlap, each.number), default=None
        )

    @property
    def may_decide(self) -> bool:
        """Whether the original's numbers are scores, or may be some."""
        if self._count == 0 or self._decision is None or (self._decision.one_each and len(self._lengths) > 1):
            return False
        return self._decision.told or self._decision.are_scores or self._add_up or not self._may_be_amounts

    @property
    def tells_one(self) -> bool:
        """Whether the original decides nearly always alike, and nothing else says that its numbers are scores."""
        if self._decision is None or self._decision.told or self._decision.are_scores or self._count < FEWEST:
            return False
        return self.answers_one

    @property
    def answers_one(self) -> bool:
        """Whether the largest number of the original is nearly always the same one."""
        return 0 < self._count * NEARLY_ALL <= max(self._in_reference.values(), default=0)

    @property
    def says_little(self) -> bool:
        """Whether there are no decisions, or nearly all are the same one of two classes that exclude each other.

        Of two classes any bound may be asked of one's probability, of more the largest is.
        """
        independent = self._decision is not None and self._decision.independent
        return self.shared()[0] is None or (self.answers_one and not independent and self._classes == PAIR)

    @property
    def only_answer(self) -> int | None:
        """What the original decides at all of :data:`FEWEST` positions or more, where the graph tells that it does.

        A class, or 1 for yes and 0 for no; None where there are several answers, or fewer positions.
        """
        if self._decision is None:
            return None
        if self._decision.by is DecidedBy.CROSSING:
            found = {answer: int(count) for answer, count in enumerate(self._answers.sum(axis=1)) if count}
        else:
            found = dict(self._in_reference) if self._decision.told else {}
        return next(iter(found)) if len(found) == 1 and sum(found.values()) >= FEWEST else None

    @property
    def tells_classes(self) -> bool:
        """Whether the graph tells the classes that it counts."""
        return self._decision is not None and self._decision.told and self._count > 0

    def _decides(self) -> bool:
        return self.may_decide and not self.tells_one and not self._is_one_of_few

    @property
    def _is_one_of_few(self) -> bool:
        """Whether fewer than :data:`FEWEST` decisions are all the same one, of numbers that may be no scores."""
        known = self._decision is not None and (self._decision.told or self._decision.are_scores)
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
