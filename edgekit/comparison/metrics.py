"""How far a built model's outputs are from the original's, and how often it finds the right class.

Outputs arrive sample by sample and are not kept. The signal-to-quantization-noise ratio (SQNR) of an output is
``10 · log10(Σ reference² / Σ (built - reference)²)`` in decibels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgekit.comparison.class_overlap import CROSSING, ClassAccuracy
from edgekit.comparison.columns import ColumnAccuracy, ColumnError, Columns
from edgekit.comparison.decisions import DecidedBy, Decision, DecisionCount
from edgekit.comparison.exchanged import Exchanged
from edgekit.comparison.fields import Fields
from edgekit.comparison.orders import OrderAccuracy, OrderCount
from edgekit.comparison.ranking import Ranking
from edgekit.comparison.recalls import ClassLoss
from edgekit.errors import InputError, RequirementError
from edgekit.features.class_scores import ClassChoice
from edgekit.model import Arrays

QUIET_SAMPLE = 1e-3
"""A sample whose mean power is below this share of the output's mean power is measured against that share: what is
left of an output that is nearly silent there, say a detector's on an empty picture, is rounding."""

TYPICAL_SHARE = 0.1
"""What of an average sample's power a sample's noise is held against where the sample itself has less."""

PICTURE_RANK = 3
"""Outputs of 8-bit integers with this many axes or more are taken for pictures, with brightness for values."""

LARGEST = Decision()
"""What decides where nothing is known: the largest entry of the last axis."""

TWO = 2
"""Classes of which one is told by a single probability, and which scores rank."""
STUCK = 2.0**-9
"""An output that is the same for all samples is stuck when the original's varies by more than this share of its
greatest magnitude: four times the spacing of half-precision numbers, below which it may vanish in rounding."""


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
    """None for outputs that are no numbers, and where one side only is infinite or NaN."""
    sqnr_db: float | None
    """Over all samples; None for other than floats."""
    worst_sample_db: float | None
    """The least SQNR of a single sample, see :data:`QUIET_SAMPLE`."""
    worst_sample: int | None
    """Which one that is, counted from 0."""
    weakest_db: float | None
    """The least SQNR of a sample, whose noise is held against its own power or :data:`TYPICAL_SHARE` of an average
    one's, whichever is more; None for other than floats."""
    picture_db: float | None
    """SQNR over all samples of 8-bit integers that are pictures or quantized numbers; None for others."""
    cosine: float | None
    agreement: float | None
    """The share of positions at which both models decide for the same class, or of yes or no, whichever is rarer, that
    both say (:mod:`edgekit.comparison.decisions`); None without decisions."""
    decisions: int | None
    """At how many positions, or how often both models say so; None without decisions."""
    mismatch: float
    """The share of unequal elements; of a floating-point output, those where one side only is infinite or NaN."""
    stuck: bool
    """Whether the built output is the same for all samples although the original's is not, see :data:`STUCK`."""
    worst_column: ColumnAccuracy | None = None
    """Of columns that have different scales the one that keeps the least; None for others."""
    worst_class: ClassAccuracy | None = None
    """Of the classes of its decisions the one that keeps the least; None without classes that have enough positions."""
    centred_db: float | None = None
    """SQNR of what varies between samples, of quantities, or of a vector or table that decides nothing; None for others
    (:mod:`edgekit.comparison.columns`)."""
    errors: tuple[ColumnError, ...] = ()
    """By how much each number of quantities is off, in its own unit; empty for others, and for curves."""
    is_curve: bool = False
    """Whether :attr:`centred_db` is that of a table or a longer vector, of which less is asked."""
    is_field: bool = False
    """Whether it is that of what varies over the places of a picture or a volume, of which less is asked, too."""
    are_shares: bool = False
    """Whether it is that of numbers between 0 and 1, of which less is asked, too."""
    tells_classes: bool = False
    """Whether its decisions are about classes by the graph, by a Softmax or an ArgMax."""
    order: OrderAccuracy | None = None
    """Of quantities that stand in order in every sample, how far they still do; None for others."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest (``output_accuracy`` in its schema)."""
        record = asdict(self)
        for key in ("worst_column", "worst_class", "centred_db", "order"):
            if record[key] is None:
                del record[key]
        if self.worst_class is not None:
            record["worst_class"] = self.worst_class.as_record()
        record["errors"] = list(record["errors"])
        for key in ("errors", "is_curve", "is_field", "are_shares", "tells_classes"):
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
    """On which sample, counted from 0; whoever walks the samples sets it."""


def _element_type(array: np.ndarray) -> np.dtype:
    """An array's element type; one for all texts, which runtimes hand out as objects or at a fixed length."""
    return np.dtype(object) if array.dtype.kind == "U" else array.dtype


class OutputComparison:
    """Gathers what :class:`OutputAccuracy` tells about an output.

    Args:
        name: The output.
        decision: What decides, as far as its shape allows; None where nothing does.
        quantized: Whether its 8-bit integers are numbers that were quantized, and not labels, say.
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
        """What the samples so far say; at least one has been added."""
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
        reference, built = reference.ravel() / self._scale, built.ravel() / self._scale
        noise = built - reference
        lost = math.inf if mismatches else _sum_of_products(noise, noise)
        self._powers.append((_sum_of_products(reference, reference), lost))
        self._dot += _sum_of_products(reference, built)
        self._built_power += _sum_of_products(built, built)

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
            self._built_varies = True
            return
        variation = float(np.abs(reference - first_reference).max(initial=0.0))
        self._reference_variation = max(self._reference_variation, variation)
        self._built_varies = self._built_varies or not np.array_equal(built, first_built)

    def _pooled_db(self) -> float:
        return decibels(sum(signal for signal, _ in self._powers), sum(noise for _, noise in self._powers))

    def _db_by_sample(self, share: float) -> list[float]:
        """SQNR by sample; each one's noise is held against its own power or a share of an average sample's."""
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
        decisions: What decides in those where it is not the largest entry of the last axis, or where more is known.
        quantized: Those whose 8-bit integers are numbers that were quantized.
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
        """One result an output, in order."""
        return tuple(output.result() for output in self._outputs.values())


@dataclass(frozen=True)
class TaskAccuracy:
    """How many labels the original and the built model find."""

    output: str
    reference: float
    built: float
    """Shares of the samples, 0 to 1."""
    classes: int | None = None
    """How many classes there are; None where the output tells a class number."""
    numbered: str | None = None
    """How classes were numbered, in words, where nothing but the order of names told it."""
    worst_class: ClassLoss | None = None
    """The class whose loss is evidence of the most; None where none is found less often."""
    exchanged: tuple[Exchanged, ...] = ()
    """Labels in whose place the original answers another one, in a circle."""
    areas: tuple[float, float] | None = None
    """Of two classes, the area under the ROC curve of the original's scores and of the built model's
    (:mod:`edgekit.comparison.ranking`); None of others."""
    listed: int | None = None
    """Of how many classes a list is in which labels are found; None where one class is told."""

    @property
    def drop(self) -> float:
        """What the built model lost; negative where it is better."""
        return self.reference - self.built

    def is_chance(self, samples: int) -> bool:
        """Whether the original finds no more of the labels of these samples than who guesses among the classes.

        A guess finds ``n·p`` of ``n`` labels on average, with a standard deviation of ``√(n·p·(1-p))``, where ``p`` is
        one in the number of classes (binomial distribution). Up to two deviations above the average are chance.
        """
        if self.classes is None:
            return self.reference == 0
        chance = 1 / self.classes
        return self.reference <= chance + 2 * math.sqrt(chance * (1 - chance) / samples)

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        shares = {"output": self.output, "reference": self.reference, "built": self.built}
        worst = {} if self.worst_class is None else {"worst_class": self.worst_class.as_record()}
        auc = {} if self.areas is None else {"auc": dict(zip(("reference", "built"), self.areas, strict=True))}
        listed = {} if self.listed is None else {"listed": self.listed}
        return {"metric": self.metric, **shares, "drop": self.drop, **worst, **auc, **listed}

    @property
    def metric(self) -> str:
        """What the shares are, in words."""
        return f"top-{self.listed or 1} accuracy"


class LabelCount:
    """Counts the labels that a model finds.

    Args:
        output: The output that a class is read from; see :func:`class_output`.
        numbers: What the output calls the classes, in their order; empty where it counts them from 0.
    """

    def __init__(self, output: str, numbers: Sequence[int] = ()) -> None:
        self.output = output
        self._numbers = numbers
        self.classes: int | None = None
        """How many classes there are; None where no scores stand beside a class number, or before the first sample."""
        self.listed: int | None = None
        """How many classes a sample's list has; None where one class is told."""
        self.by_class: Counter[int] = Counter()
        """How many samples of each class are found."""
        self.answers: Counter[tuple[int, int | None]] = Counter()
        """How many samples of a label, its first number, are answered as the second; None is no class."""
        self.ranking = Ranking()
        """Of two classes, how the scores rank the samples."""
        self._samples = self._found = 0

    def add(self, label: int, outputs: Mapping[str, np.ndarray], sample: str) -> None:
        """Judges one more sample.

        Raises:
            InputError: The output has no class of that number.
        """
        decision = np.asarray(outputs[self.output]).ravel()
        is_list = decision.size > 1 and decision.dtype.kind in "iu" and decision.dtype.itemsize > 1
        scores = self.output if decision.size > 1 else _scores_beside(self.output, outputs)
        if scores is not None and not is_list:
            self.classes = np.asarray(outputs[scores]).size
            if not 0 <= label < self.classes:
                raise InputError(
                    "the label is no class of the model",
                    subject=sample,
                    expected=f"0 to {self.classes - 1}, the entries of output {scores!r}",
                    found=label,
                    hint="labels are numbers of classes, counted from 0 in the order of the model's output"
                    + ("; if yours run from 1, take 1 from each" if label == self.classes else ""),
                )
        answer: int | None
        if is_list:
            self.listed = decision.size
            answer = label if label in decision else None
        elif decision.size > 1:
            answer = None if np.isnan(decision).any() else int(decision.argmax())
        elif _is_answer(decision):
            self.classes = TWO
            if label not in range(TWO):
                raise InputError(
                    "the label is no class of the model",
                    subject=sample,
                    expected=f"0 or 1: output {self.output!r} is the probability of class 1",
                    found=label,
                    hint="a number to predict is no label: leave it out, and judge by it with --metric",
                )
            answer = None if np.isnan(decision[0]) else int(decision[0] > CROSSING)
        else:
            answer = class_index(int(decision[0]), self._numbers)
        if self.classes == TWO:
            self.ranking.add(label, np.asarray(outputs[scores or self.output]))
        found = answer == label
        self.answers[label, answer] += 1
        self._samples += 1
        self._found += found
        self.by_class[label] += found

    @property
    def accuracy(self) -> float:
        """Share of the samples whose label was found."""
        return self._found / self._samples


def class_output(outputs: Arrays, choice: ClassChoice | None = None) -> str | None:
    """The output that tells a sample's class.

    That of ``choice``; else a single integer that is called the label (:func:`is_label`), which is the model's own
    decision: the greatest of the scores beside it may be another class's, such as the distance from the farthest
    cluster. Else the first output that holds a score a class, floats along the only axis that is longer than one, of as
    many classes as there are where that is known, and no state where there are others, nor logits beside their softmax;
    else a single integer, which is the number of a class; else scores of 8-bit integers; else a list of TopK's; else a
    single probability, which says yes or no. Embeddings tell no class, nor do scores that TopK puts in order.
    """
    choice = choice or ClassChoice()
    if choice.output in outputs:
        return choice.output
    outputs = {name: each for name, each in outputs.items() if name not in choice.embeddings | choice.in_order}
    vectors = [name for name, array in outputs.items() if 1 < array.size == max(array.shape)]
    floats = [name for name in vectors if outputs[name].dtype.kind == "f"]
    floats = [name for name in floats if outputs[name].size == choice.classes] or floats
    floats = [name for name in floats if name not in choice.states] or floats
    floats = [name for name in floats if name not in choice.superseded] or floats
    numbers = [name for name, array in outputs.items() if array.dtype.kind in "iu" and array.size == 1]
    narrow = [name for name in vectors if outputs[name].dtype.kind in "iu" and outputs[name].dtype.itemsize == 1]
    listed = [name for name in vectors if name in choice.listed]
    answers = [name for name in outputs if name in choice.answers and _is_answer(outputs[name])]
    return next(iter([*filter(is_label, numbers), *floats, *numbers, *narrow, *listed, *answers]), None)


def _is_answer(array: np.ndarray) -> bool:
    """Whether an output may be one probability, of yes."""
    return array.size == 1 and array.dtype.kind == "f"


def is_label(output: str) -> bool:
    """Whether an output's name says that it is the class: ``label`` or ``output_label``, as skl2onnx has it."""
    return output.casefold().endswith("label")


def class_index(number: int, numbers: Sequence[int]) -> int:
    """The class's index of a number that a model gives for it.

    Args:
        number: What the model gives.
        numbers: What it calls the classes, in their order; empty where it counts them from 0.
    """
    return numbers.index(number) if number in numbers else -1 if numbers else number


def _scores_beside(label: str, outputs: Mapping[str, np.ndarray]) -> str | None:
    """The scores that stand beside a label; None where there are none, or where the output is no label."""
    others = {name: np.asarray(array) for name, array in outputs.items() if name != label}
    scores = class_output(others) if is_label(label) else None
    return None if scores is None or others[scores].size == 1 else scores


def _sum_of_products(one: np.ndarray, other: np.ndarray) -> float:
    """The sum of the products; the same with any number of threads, which a BLAS library's is not."""
    return float(np.sum(one * other))
