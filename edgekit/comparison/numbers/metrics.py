"""How far a built model's outputs are from the original's.

Outputs arrive sample by sample and are not kept. The signal-to-quantization-noise ratio (SQNR) of an output is
``10 · log10(Σ reference² / Σ (built - reference)²)`` in decibels.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgekit.comparison.decisions.class_overlap import ClassAccuracy
from edgekit.comparison.decisions.shared import DecidedBy, Decision, DecisionCount
from edgekit.comparison.numbers.columns import RANGE, ColumnAccuracy, ColumnError, Columns
from edgekit.comparison.numbers.fields import Fields
from edgekit.comparison.numbers.orders import OrderAccuracy, OrderCount
from edgekit.errors import RequirementError

QUIET_SAMPLE = 1e-3
"""A sample whose mean power is below this share of the output's mean power is measured against that share: if an output
is nearly silent on a sample, as a detector's is on an empty picture, its numbers are rounding."""

TYPICAL_SHARE = 0.1
"""The least share of an average sample's power that a sample's noise is compared with."""

PICTURE_RANK = 3
"""Outputs of 8-bit integers with this many axes or more are assumed to be pictures, whose values are brightness."""

LARGEST = Decision()
"""The decision if nothing is known: the largest entry along the last axis."""

STUCK = 2.0**-9
"""An output that is the same for all samples is stuck when the original's varies by more than this share of its
greatest magnitude: four times the spacing of half-precision numbers, below which it may vanish in rounding."""

ENOUGH_TO_VARY = 8
"""From this many samples on, an output that depends on the inputs is expected to differ between samples."""


def decibels(signal: float, noise: float) -> float:
    """The ratio of two powers in dB: infinite without noise, ``-inf`` where nothing of the signal is right."""
    if noise == 0:
        return math.inf
    if signal == 0 or not math.isfinite(noise):
        return -math.inf
    return 10 * math.log10(signal / noise)


def json_number(value: float) -> float | str:
    """A number as the manifest writes it: JSON has no infinity, so it becomes ``"inf"`` or ``"-inf"``."""
    return value if math.isfinite(value) else str(value)


@dataclass(frozen=True)
class OutputAccuracy:
    """One output of the built model against the original's, over all samples."""

    name: str
    samples: int
    exact: bool
    """Whether every element of every sample is equal; NaN equals NaN."""
    max_abs_error: float | None
    """None for outputs that are not numbers, and if one side only is infinite or NaN."""
    sqnr_db: float | None
    """SQNR in dB over all samples; None for outputs other than floats."""
    worst_sample_db: float | None
    """The least SQNR in dB of a single sample, see :data:`QUIET_SAMPLE`."""
    worst_sample: int | None
    """The sample with :attr:`worst_sample_db`, counted from 0."""
    weakest_db: float | None
    """The least SQNR in dB of a sample, whose noise is compared with its own power or :data:`TYPICAL_SHARE` of an
    average sample's, whichever is more; None for outputs other than floats."""
    picture_db: float | None
    """SQNR in dB over all samples of 8-bit integers that are pictures or quantized numbers; None for other outputs."""
    cosine: float | None
    agreement: float | None
    """The share of positions at which both models decide for the same class; for yes or no, the share of the answer
    that is rarer in the original that both models give (:mod:`edgekit.comparison.decisions.shared`); None without
    decisions."""
    decisions: int | None
    """How many positions there are, or how often both models together give the rarer answer; None without decisions."""
    mismatch: float
    """The share of unequal elements; for a floating-point output, of those where one side only is infinite or NaN."""
    stuck: bool
    """Whether the built output is the same for all samples although the original's is not, see :data:`STUCK`."""
    worst_column: ColumnAccuracy | None = None
    """The column that keeps the least, if columns have different scales; else None."""
    worst_class: ClassAccuracy | None = None
    """The class of the output's decisions that keeps the least; None if no class has enough positions."""
    centred_db: float | None = None
    """SQNR in dB of what varies between samples, for quantities, or for a vector or table without decisions; None for
    other outputs (:mod:`edgekit.comparison.numbers.columns`)."""
    errors: tuple[ColumnError, ...] = ()
    """By how much each of several quantities is off, in its own unit; empty for other outputs, and for curves."""
    is_curve: bool = False
    """Whether :attr:`centred_db` is that of a table or a longer vector, for which less is asked."""
    is_field: bool = False
    """Whether :attr:`centred_db` is that of what varies over the places of a picture or a volume, for which less is
    asked."""
    are_shares: bool = False
    """Whether :attr:`centred_db` is that of numbers between 0 and 1, for which less is asked."""
    tells_classes: bool = False
    """Whether the graph declares the output's decisions to be classes, by a Softmax or an ArgMax."""
    only_answer: int | None = None
    """The one class that the original tells at all positions, where the graph says that it tells classes, or the one
    answer of a probability: 1 for yes, 0 for no. None if there are several, or fewer than 20 positions."""
    is_constant: bool = False
    """Whether the original gives the same floating-point numbers for all samples, of which there are 8 or more."""
    order: OrderAccuracy | None = None
    """How far quantities that are in order in every sample of the original still are; None for other outputs."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest (``output_accuracy`` in its schema)."""
        record = asdict(self)
        for key in ("worst_column", "worst_class", "centred_db", "only_answer", "order"):
            if record[key] is None:
                del record[key]
        if self.worst_class is not None:
            record["worst_class"] = self.worst_class.as_record()
        record["errors"] = list(record["errors"])
        for key in ("errors", "is_curve", "is_field", "are_shares", "tells_classes", "is_constant"):
            if not record[key]:
                del record[key]
        if self.worst_column is not None and not self.worst_column.is_channel:
            del record["worst_column"]["is_channel"]
        for key in ("sqnr_db", "worst_sample_db", "weakest_db", "picture_db", "centred_db"):
            if record.get(key) is not None:
                record[key] = json_number(record[key])
        return record


class OtherFormError(RequirementError):
    """A built model's output has another shape or element type than the original's."""

    sample: int = 0
    """The sample with the other form, counted from 0; the caller that iterates over the samples sets it."""


def _element_type(array: np.ndarray) -> np.dtype:
    """Returns an array's element type; one type for all texts, which runtimes give as objects or at a fixed length."""
    return np.dtype(object) if array.dtype.kind == "U" else array.dtype


class OutputComparison:
    """Gathers what :class:`OutputAccuracy` tells about an output.

    Args:
        name: The output.
        decision: What counts as a decision, as far as the output's shape allows; None if nothing does.
        quantized: Whether the output's 8-bit integers are numbers that were quantized, and not labels, say.
    """

    def __init__(self, name: str, decision: Decision | None = LARGEST, *, quantized: bool = False) -> None:
        self._name = name
        self._decisions = DecisionCount(decision, quantized=quantized)
        self._is_label = decision is not None and decision.by is DecidedBy.NUMBER
        self._quantized = quantized
        self._samples = 0
        self._elements = 0
        self._mismatches = 0
        self._exact = True
        self._max_abs_error: float | None = None
        self._powers: list[tuple[float, float]] = []
        self._dot = self._built_power = 0.0
        self._scale = 1.0
        self._first: tuple[np.ndarray, np.ndarray] | None = None
        self._reference_variation = self._reference_peak = 0.0
        self._built_varies = False
        self._is_float = False
        self._columns, self._order = Columns(), OrderCount()
        self._fields = Fields(decision.axis if decision is not None and decision.are_channels else None)

    def add(self, reference: np.ndarray, built: np.ndarray) -> None:
        """Compares the output for one more sample.

        Raises:
            OtherFormError: Shape or dtype are not the original's.
        """
        reference, built = np.asarray(reference), np.asarray(built)
        for what, expected, found in (
            ("shape", reference.shape, built.shape),
            ("element type", _element_type(reference), _element_type(built)),
        ):
            if expected != found:
                raise OtherFormError(
                    f"the built model's output has another {what} than the original's",
                    subject=f"output {self._name!r}",
                    expected=expected,
                    found=found,
                )
        self._samples += 1
        self._elements += reference.size
        self._is_float = reference.dtype.kind == "f"
        self._decisions.add(reference, built)
        self._columns.add(reference, built)
        self._order.add(reference, built)
        self._fields.add(reference, built)
        if self._is_float:
            self._compare_floats(reference.astype(np.float64), built.astype(np.float64))
        else:
            self._compare_exactly(reference, built)

    def result(self) -> OutputAccuracy:
        """Returns the figures of the samples so far; at least one has been added."""
        floats = self._is_float
        agreement, decisions = self._decisions.shared()
        by_sample = self._db_by_sample(QUIET_SAMPLE) if floats else []
        decides = self._decisions.may_decide if self._columns.is_vector else agreement is not None
        shares_decide = not self._decisions.says_little
        centred_db = self._columns.centred_db(decides=decides, shares_decide=shares_decide)
        field_db = self._fields.centred_db() if centred_db is None else None
        return OutputAccuracy(
            name=self._name,
            samples=self._samples,
            exact=self._exact,
            max_abs_error=None if floats and self._mismatches else self._max_abs_error,
            sqnr_db=self._pooled_db() if floats else None,
            worst_sample_db=min(by_sample, default=None),
            worst_sample=by_sample.index(min(by_sample)) if by_sample else None,
            weakest_db=min(self._db_by_sample(TYPICAL_SHARE)) if floats else None,
            picture_db=self._pooled_db() if self._powers and not floats else None,
            cosine=self._cosine() if floats else None,
            agreement=agreement,
            decisions=decisions,
            mismatch=self._mismatches / self._elements if self._elements else 0.0,
            stuck=not self._built_varies and self._reference_variation > STUCK * self._reference_peak,
            worst_column=self._columns.worst() or self._fields.worst(),
            worst_class=self._decisions.worst_class(),
            centred_db=field_db if centred_db is None else centred_db,
            errors=self._columns.errors(decides=decides, shares_decide=shares_decide),
            is_curve=centred_db is not None and self._columns.is_curve,
            is_field=field_db is not None,
            are_shares=centred_db is not None and self._columns.are_shares,
            tells_classes=agreement is not None and self._decisions.tells_classes,
            only_answer=self._decisions.only_answer,
            is_constant=floats and self._samples >= ENOUGH_TO_VARY and self._reference_variation == 0,
            order=None if centred_db is None else self._order.result(),
        )

    def _compare_floats(self, reference: np.ndarray, built: np.ndarray) -> None:
        finite = np.isfinite(reference) & np.isfinite(built)
        same = (reference == built) | (np.isnan(reference) & np.isnan(built))
        mismatches = int(np.count_nonzero(~finite & ~same))
        self._mismatches += mismatches
        self._exact = self._exact and bool(same.all())
        reference, built = np.where(finite, reference, 0.0), np.where(finite, built, 0.0)
        self._note_error(np.abs(built - reference))
        peak = float(np.abs(reference).max(initial=0.0))
        self._note_variation(reference, built, peak)
        if self._samples == 1:
            self._scale = peak or 1.0  # keeps the squares of very large and very small outputs in range
        elif peak / RANGE > self._scale:
            self._rescale(peak)
        reference, built = reference.ravel() / self._scale, built.ravel() / self._scale
        noise = built - reference
        lost = math.inf if mismatches else _sum_of_products(noise, noise)
        self._powers.append((_sum_of_products(reference, reference), lost))
        self._dot += _sum_of_products(reference, built)
        self._built_power += _sum_of_products(built, built)

    def _rescale(self, scale: float) -> None:
        """Gives the powers so far as those of the outputs over a larger scale."""
        smaller = (self._scale / scale) ** 2
        self._powers = [
            (signal * smaller, noise * smaller if math.isfinite(noise) else noise) for signal, noise in self._powers
        ]
        self._dot, self._built_power, self._scale = self._dot * smaller, self._built_power * smaller, scale

    def _compare_exactly(self, reference: np.ndarray, built: np.ndarray) -> None:
        mismatches = int(np.count_nonzero(reference != built))
        self._mismatches += mismatches
        self._exact = self._exact and mismatches == 0
        if reference.dtype.kind in "iu":
            greater, less = np.maximum(reference, built), np.minimum(reference, built)
            error = greater.astype(np.float64) - less.astype(np.float64)
            self._note_error(error)
            may_be_picture = reference.ndim >= PICTURE_RANK and not self._is_label
            if reference.dtype.itemsize == 1 and (self._quantized or may_be_picture):
                wide = reference.astype(np.float64)
                self._powers.append((float(np.square(wide).sum()), float(np.square(error).sum())))

    def _note_error(self, error: np.ndarray) -> None:
        self._max_abs_error = max(self._max_abs_error or 0.0, float(error.max(initial=0.0)))

    def _note_variation(self, reference: np.ndarray, built: np.ndarray, peak: float) -> None:
        self._reference_peak = max(self._reference_peak, peak)
        if self._first is None:
            self._first = reference, built
            return
        first_reference, first_built = self._first
        if first_reference.shape != reference.shape:  # an output whose shape follows its input's values
            self._built_varies, self._reference_variation = True, math.inf
            return
        variation = float(np.abs(reference - first_reference).max(initial=0.0))
        self._reference_variation = max(self._reference_variation, variation)
        self._built_varies = self._built_varies or not np.array_equal(built, first_built)

    def _pooled_db(self) -> float:
        return decibels(sum(signal for signal, _ in self._powers), sum(noise for _, noise in self._powers))

    def _db_by_sample(self, share: float) -> list[float]:
        """Returns each sample's SQNR, its noise compared with its own power or a share of an average sample's."""
        mean_signal = sum(signal for signal, _ in self._powers) / len(self._powers)
        return [decibels(max(signal, share * mean_signal), noise) for signal, noise in self._powers]

    def _cosine(self) -> float | None:
        reference_power = sum(signal for signal, _ in self._powers)
        if self._mismatches:
            return None
        if reference_power == 0 or self._built_power == 0:
            return 1.0 if reference_power == self._built_power else 0.0
        return max(-1.0, min(1.0, self._dot / math.sqrt(reference_power) / math.sqrt(self._built_power)))


class Comparison:
    """Gathers the accuracy of all outputs of a model.

    Args:
        names: The original's outputs, in order.
        decisions: What counts as a decision in the outputs where it is not the largest entry of the last axis, or where
            more is known.
        quantized: The outputs whose 8-bit integers are numbers that were quantized.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        decisions: Mapping[str, Decision | None] | None = None,
        quantized: Collection[str] = (),
    ) -> None:
        known = decisions or {}
        self._outputs = {
            name: OutputComparison(name, known.get(name, LARGEST), quantized=name in quantized) for name in names
        }

    def add(self, reference: Mapping[str, np.ndarray], built: Mapping[str, np.ndarray]) -> None:
        """Compares the outputs for one more sample.

        Raises:
            RequirementError: An output is missing, or its shape or dtype are not the original's.
        """
        missing = [name for name in self._outputs if name not in built]
        if missing:
            raise RequirementError(
                "the built model lacks outputs of the original",
                expected=", ".join(self._outputs),
                found=", ".join(built) or "none",
            )
        for name, output in self._outputs.items():
            output.add(reference[name], built[name])

    def results(self) -> tuple[OutputAccuracy, ...]:
        """Returns one result for each output, in order."""
        return tuple(output.result() for output in self._outputs.values())


def _sum_of_products(one: np.ndarray, other: np.ndarray) -> float:
    """Returns the sum of the products; the same with any number of threads, which a BLAS library's is not."""
    return float(np.sum(one * other))
