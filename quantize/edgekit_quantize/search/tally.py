"""What the outputs of one candidate add up to, sample by sample."""

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
"""What decides where the graph tells nothing: the largest entry of the last axis."""

SURE = 3.0
"""How many standard errors of a mean are sure."""


class Tally:
    """What one candidate's outputs add up to.

    Args:
        metric: See :attr:`Score.metric`.
        variances: Of the float model's outputs, by name; empty where they do not count.
        meaning: Reads what outputs tell, where the metric is that.
        by_margins: Whether decisions count as :attr:`Scorer.by_margins` has it.
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
        """Of each sample, for the outputs that have a variance."""
        self._columns: dict[str, Columns] = {}
        self._integers: dict[str, list[int]] = {}
        self.share = 1.0
        """Of the samples that variances are of, how many were added."""
        self.same = self.positions = 0
        self.labels: LabelCount | None = None
        self._of_float: LabelCount | None = None

    def add(self, reference: Reference, outputs: Arrays) -> None:
        """Takes the outputs for one more sample."""
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
        """See :attr:`Score.class_drop`; where no class loses labels, what the order of the samples loses."""
        if self.labels is None or self._of_float is None:
            return 0.0
        worst = worst_class(self._of_float.by_class, self.labels.by_class)
        return self._order_drop if worst is None else worst.drop

    @property
    def _order_drop(self) -> float:
        """The share of what varies that is error, where a bundle is refused for it; else 0."""
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
        """The share of decisions that are the float model's; of few no more than is expected.

        What is expected tells of more than what changed, and what changed of noise that is not normal: fewer than 500
        decisions keep the lesser share. Numbers of classes have no margins: of few those of all heads count together.
        It is 0 where a class is lost, however few positions it has. Where the float model decides nearly always alike,
        the numbers may be a regression's: it is 0 with less of a signal than a bundle needs.
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
        """How many numbers of classes changed, of how many: of the first output and of those beside it."""
        changed, everything = self._beside.of_numbers
        if self._metric != AGREEMENT or self._decision.by is not DecidedBy.NUMBER:
            return changed, everything
        return changed + self.positions - self.same, everything + self.positions

    @property
    def _has_maps(self) -> bool:
        """Whether classes may be lost beside the signal: of maps, or of channels that may be their logits."""
        return self._decision.is_map or self._decision.are_channels

    @property
    def lost_class(self) -> ClassAccuracy | None:
        """The class whose loss makes the score 0: a decision's, or one of which there is a map, or surely a channel."""
        decides = self._metric == AGREEMENT
        worst = self._decided.worst_class() if decides or self._has_maps else None
        counts = worst is not None and (decides or worst.told or self._decision.are_channels)
        return worst if worst is not None and counts and worst.is_lost else None

    @property
    def explained(self) -> float:
        """See :attr:`Score.metric`; 0 where a class is lost."""
        if self.lost_class is not None:
            return 0.0
        noises = {name: noise for name, (_, noise) in self._power.items() if name in self._variances}
        ratios = [decibels(self.share * self._variances[name], noise) for name, noise in noises.items()]
        columns = [worst.explained for each in self._columns.values() if (worst := each.worst()) is not None]
        return max(0.0, min([1 - 10 ** (-min(ratios, default=math.inf) / 10), *columns]))

    @property
    def surely_lost(self) -> float:
        """What of an agreement, or of what is explained, is lost at least on all samples, by those that were added.

        Decisions change by luck once in 20 times (:func:`edgekit.comparison.decisions.shared.beyond_luck`); the mean
        power of the error is at least what it is here less :data:`SURE` standard errors, corrected for the share of the
        samples that is known, and in all no less than what has added up.
        """
        if self._metric == AGREEMENT:
            return beyond_luck(self.positions - self.same) / max(self.positions, 1)
        return max(
            (_least_total(noises, self.share) / self._variances[name] for name, noises in self._noises.items()),
            default=0.0,
        )

    @property
    def integers_kept(self) -> float:
        """The share of equal elements of the worst output of integers; 1 where as many are equal as a bundle needs."""
        shares = [1 - unequal / count for unequal, count in self._integers.values() if count]
        worst = min(shares, default=1.0)
        return 1.0 if worst >= 1 - MAX_DISAGREEMENT else worst

    @property
    def sqnr_db(self) -> float:
        """See :attr:`Score.sqnr_db`."""
        return min((decibels(signal, noise) for signal, noise in self._power.values()), default=math.inf)


def _least_total(noises: Sequence[float], share: float) -> float:
    """What the noises of all samples add up to at least, of which these are a share that was drawn without a choice."""
    known, count = math.fsum(noises), len(noises)
    if share == 1 or count < 2 or not math.isfinite(known):
        return known
    error = float(np.std(noises, ddof=1)) * math.sqrt((1 - share) / count)
    return max(known, (known / count - SURE * error) * count / share)


def _signal_kept(signal: float, noise: float) -> HeadKept:
    """What is kept of a signal; all of it where it is as near as a bundle needs."""
    reached = decibels(signal, noise)
    return HeadKept(1.0 if reached >= SQNR_FLOOR_DB[Kind.QUANTIZED] else max(0.0, 1 - 10 ** (-reached / 10)), None)


def _is_picture(output: np.ndarray) -> bool:
    """Whether integers are brightness: those of 8 bits with three axes or more."""
    return output.dtype.itemsize == 1 and output.dtype.kind != "b" and output.ndim >= PICTURE_RANK
