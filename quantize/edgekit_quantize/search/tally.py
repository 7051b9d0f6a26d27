"""Accumulates the comparison of one candidate's outputs with the float model's, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from edgekit.comparison.acceptance.accuracy import LEAST_DB
from edgekit.comparison.decisions.class_overlap import ClassAccuracy
from edgekit.comparison.decisions.label_accuracy import LabelCount, class_output
from edgekit.comparison.decisions.recalls import worst_class
from edgekit.comparison.decisions.shared import DecidedBy, Decision, DecisionCount, beyond_luck
from edgekit.comparison.floors import MAX_DISAGREEMENT, SQNR_FLOOR_DB, Kind
from edgekit.comparison.meaning import Meaning
from edgekit.comparison.numbers.columns import Columns
from edgekit.comparison.numbers.metrics import PICTURE_RANK, decibels
from edgekit.model import Arrays
from edgekit_quantize.calibration.references import Reference
from edgekit_quantize.search.choices_beside import ChoicesKept
from edgekit_quantize.search.margins import ENOUGH_DECISIONS, FEW_DECISIONS, Margins, share_kept
from edgekit_quantize.search.score import AGREEMENT, LABELS, HeadKept
from edgekit_quantize.search.variances import powers

DEFAULT_DECISION = Decision()
"""The decision if the graph tells nothing: the largest entry along the last axis."""

SURE = 3.0
"""A mean is assumed to lie within this number of standard errors."""


class Tally:
    """The accumulated comparison of one candidate's outputs with the float model's.

    Args:
        metric: See :attr:`Score.metric`.
        variances: The variances of the float model's outputs, by name; empty if they do not count.
        meaning: Interprets the outputs, if the metric is that of their meaning.
        by_margins: See :attr:`Scorer.by_margins`.
        label_output: See :attr:`Scorer.label_output`.
        label_numbers: See :attr:`Scorer.label_numbers`.
        decision: See :attr:`Scorer.decision`.
        ranks: See :attr:`Scorer.ranks`.
        beside: See :attr:`Scorer.beside`.
        signals: See :attr:`Scorer.signals`.
    """

    def __init__(
        self,
        metric: str,
        variances: Mapping[str, float],
        *,
        meaning: Meaning | None = None,
        by_margins: bool = False,
        label_output: str | None = None,
        label_numbers: Sequence[int] = (),
        decision: Decision = DEFAULT_DECISION,
        ranks: bool = False,
        beside: Mapping[str, Decision] | None = None,
        signals: Collection[str] = (),
    ) -> None:
        self._beside, self._signals = ChoicesKept(beside or {}), signals
        self._order = Columns() if ranks else None
        self._label_output, self._label_numbers = label_output, label_numbers
        along_axis = decision.by is DecidedBy.LARGEST
        self._margins = Margins() if metric == AGREEMENT and along_axis else None
        self._is_strict = by_margins
        self._decision = decision
        self._decided = DecisionCount(decision)
        self.meaning = None if meaning is None else meaning.anew()
        self._metric = metric
        self._variances = variances
        self._power: dict[str, list[float]] = {}
        self._noises: dict[str, list[float]] = {}
        """The power of the error of each sample, for the outputs that have a variance."""
        self._columns: dict[str, Columns] = {}
        self._integers: dict[str, list[int]] = {}
        self.share = 1.0
        """The share of the samples behind ``variances`` that were added."""
        self.same = self.positions = 0
        self.labels: LabelCount | None = None
        self._of_float: LabelCount | None = None

    def add(self, reference: Reference, outputs: Arrays) -> None:
        """Adds the outputs for one more sample."""
        for name, expected in reference.outputs.items():
            if expected.dtype.kind == "f":
                signal, noise = powers(expected, outputs[name])
                signal_and_noise = self._power.setdefault(name, [0.0, 0.0])
                signal_and_noise[0] += signal
                signal_and_noise[1] += noise
                if name in self._variances:
                    self._noises.setdefault(name, []).append(noise)
                    self._columns.setdefault(name, Columns()).add(expected, outputs[name])
            elif expected.dtype.kind in "iub" and not _is_picture(expected):
                unequal_and_all = self._integers.setdefault(name, [0, 0])
                found = np.asarray(outputs[name])
                same_shape = found.shape == expected.shape
                unequal_and_all[0] += int((found != expected).sum()) if same_shape else expected.size
                unequal_and_all[1] += expected.size
        if self.meaning is not None:
            self.meaning.add(reference.outputs, outputs)
        self._beside.add(reference.outputs, outputs)
        first = next(iter(reference.outputs))
        if self._metric == AGREEMENT:
            self._add_decisions(reference.outputs[first], np.asarray(outputs[first]))
        elif self._order is not None:
            self._order.add(reference.outputs[first], np.asarray(outputs[first]))
        elif self._has_maps and np.shape(outputs[first]) == reference.outputs[first].shape:
            self._decided.add(reference.outputs[first], np.asarray(outputs[first]))
        if self._metric == LABELS and reference.label is not None:
            name = self._label_output or class_output(reference.outputs) or ""
            self.labels = self.labels or LabelCount(name, self._label_numbers)
            self.labels.add(reference.label, outputs, reference.name)
            self._of_float = self._of_float or LabelCount(name, self._label_numbers)
            self._of_float.add(reference.label, reference.outputs, reference.name)

    @property
    def heads(self) -> dict[str, HeadKept]:
        """See :attr:`Score.heads`."""
        changed, everything = self._numbers
        together = 1 - changed / everything if everything else 1.0
        return self._beside.kept(together) | {name: _signal_kept(*self._power[name]) for name in self._signals}

    @property
    def class_drop(self) -> float:
        """See :attr:`Score.class_drop`; if no class loses labels, the loss of the ranking of the samples."""
        if self.labels is None or self._of_float is None:
            return 0.0
        worst = worst_class(self._of_float.by_class, self.labels.by_class)
        return self._order_drop if worst is None else worst.drop

    @property
    def _order_drop(self) -> float:
        """The power of the error over that of what varies between samples if a bundle is refused for it; else 0."""
        order_db = None if self._order is None else self._order.centred_db(shares_decide=False)
        return 0.0 if order_db is None or order_db >= LEAST_DB else min(1.0, 10 ** (-order_db / 10))

    def _add_decisions(self, expected: np.ndarray, found: np.ndarray) -> None:
        decision = self._decision
        numbers = decision.by is DecidedBy.NUMBER
        if found.shape != expected.shape:
            self.positions += expected.size if numbers else expected.size // expected.shape[decision.axis]
            return
        self._decided.add(expected, found)
        wanted, got = (array if numbers else array.argmax(decision.axis) for array in (expected, found))
        self.same += int((wanted == got).sum())
        self.positions += wanted.size
        if self._margins is not None:
            self._margins.add(*(np.moveaxis(array, decision.axis, -1) for array in (expected, found)))

    @property
    def agreement(self) -> float:
        """The share of decisions that equal the float model's; with few decisions, at most the expected share.

        The expected share (by margins) is more precise than the counted one, which in turn shows noise that is not
        normal; so with fewer than 500 decisions, the lesser of the two is taken. Class indices have no margins: if
        there are few, those of all heads are counted together. The share is 0 if a class is lost, however few positions
        it has. If the float model nearly always decides alike, the output may be a regression: the share is 0 if the
        SQNR is below what a bundle needs.
        """
        if self._decided.tells_one and self.sqnr_db < SQNR_FLOOR_DB[Kind.QUANTIZED]:
            return 0.0
        if self.lost_class is not None:
            return 0.0
        counted, changed = self.same / self.positions, self.positions - self.same
        if self.positions >= FEW_DECISIONS:
            return counted
        surely = beyond_luck(changed) / self.positions
        if self._margins is None:
            all_changed, everything = self._numbers
            return min(1 - surely, 1 - all_changed / everything)
        if self._is_strict:
            return min(1 - surely, self._margins.expected_agreement())
        if self.positions < ENOUGH_DECISIONS:
            return counted
        return min(counted, share_kept(changed, self.positions, self._margins))

    @property
    def _numbers(self) -> tuple[int, int]:
        """The number of class indices that changed and their total, over the first output and all heads."""
        changed, everything = self._beside.of_numbers
        if self._metric != AGREEMENT or self._decision.by is not DecidedBy.NUMBER:
            return changed, everything
        return changed + self.positions - self.same, everything + self.positions

    @property
    def _has_maps(self) -> bool:
        """Whether the first output is a map of classes, or has channels that may be logits: classes may be lost."""
        return self._decision.is_map or self._decision.are_channels

    @property
    def lost_class(self) -> ClassAccuracy | None:
        """The class whose loss makes the score 0; None if no class is lost.

        The class is one of a decision, of a map, or of a channel that surely holds its logits.
        """
        decides = self._metric == AGREEMENT
        worst = self._decided.worst_class() if decides or self._has_maps else None
        counts = worst is not None and (decides or worst.is_known or self._decision.are_channels)
        return worst if worst is not None and counts and worst.is_lost else None

    @property
    def explained(self) -> float:
        """The value of the metric ``explained`` (:attr:`Score.metric`); 0 if a class is lost."""
        if self.lost_class is not None:
            return 0.0
        noises = {name: noise for name, (_, noise) in self._power.items() if name in self._variances}
        ratios = [decibels(self.share * self._variances[name], noise) for name, noise in noises.items()]
        columns = [worst.explained for each in self._columns.values() if (worst := each.worst()) is not None]
        return max(0.0, min([1 - 10 ** (-min(ratios, default=math.inf) / 10), *columns]))

    @property
    def surely_lost(self) -> float:
        """A lower bound, from the added samples, for the loss of ``agreement`` or ``explained`` on all samples.

        For decisions, the bound is exceeded by chance once in 20 times
        (:func:`edgekit.comparison.decisions.shared.beyond_luck`). For errors, the mean power is at least the mean of
        the added samples minus :data:`SURE` standard errors, corrected for the share of the samples that is known; the
        total is at least the sum over the added samples.
        """
        if self._metric == AGREEMENT:
            return beyond_luck(self.positions - self.same) / max(self.positions, 1)
        return max(
            (_least_total(noises, self.share) / self._variances[name] for name, noises in self._noises.items()),
            default=0.0,
        )

    @property
    def integers_kept(self) -> float:
        """The share of equal elements in the worst integer output; 1 if it is as large as a bundle needs."""
        shares = [1 - unequal / count for unequal, count in self._integers.values() if count]
        worst = min(shares, default=1.0)
        return 1.0 if worst >= 1 - MAX_DISAGREEMENT else worst

    @property
    def sqnr_db(self) -> float:
        """See :attr:`Score.sqnr_db`."""
        return min((decibels(signal, noise) for signal, noise in self._power.values()), default=math.inf)


def _least_total(noises: Sequence[float], share: float) -> float:
    """A lower bound for the sum of the noises of all samples, of which ``noises`` are a random share."""
    known, count = math.fsum(noises), len(noises)
    if share == 1 or count < 2 or not math.isfinite(known):
        return known
    error = float(np.std(noises, ddof=1)) * math.sqrt((1 - share) / count)
    return max(known, (known / count - SURE * error) * count / share)


def _signal_kept(signal: float, noise: float) -> HeadKept:
    """The kept share of a signal: 1 - power of the error / power of the signal; 1 if a bundle needs no more."""
    reached = decibels(signal, noise)
    return HeadKept(1.0 if reached >= SQNR_FLOOR_DB[Kind.QUANTIZED] else max(0.0, 1 - 10 ** (-reached / 10)), None)


def _is_picture(output: np.ndarray) -> bool:
    """Whether an integer output is a picture: 8-bit integers with at least :data:`PICTURE_RANK` axes."""
    return output.dtype.itemsize == 1 and output.dtype.kind != "b" and output.ndim >= PICTURE_RANK
