"""How near a candidate is to the float model, and how fast."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edgekit.comparison.accuracy import LEAST_DB
from edgekit.comparison.columns import Columns
from edgekit.comparison.custom_metric import Evaluation, share_lost
from edgekit.comparison.decisions import DecidedBy, Decision, DecisionCount
from edgekit.comparison.floors import MAX_DISAGREEMENT, SQNR_FLOOR_DB, Kind
from edgekit.comparison.label_accuracy import LabelCount, TaskAccuracy, class_output
from edgekit.comparison.meaning import (
    BOXES,
    TEXT,
    EmbeddingMeaning,
    Meaning,
    MeaningAccuracy,
    choice_beside,
)
from edgekit.comparison.metrics import PICTURE_RANK, decibels
from edgekit.comparison.padding import Padding
from edgekit.comparison.recalls import worst_class
from edgekit.data.samples import Samples
from edgekit.features.class_scores import ClassChoice
from edgekit.model import Arrays
from edgekit.quantizer import CandidateError
from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.search.choices import has_decisions, only_ranks
from edgekit_quantize.search.choices_beside import ONE_SIDED, ChoicesKept
from edgekit_quantize.search.margins import Margins
from edgekit_quantize.search.variances import powers, variances

Run = Callable[[Mapping[str, np.ndarray]], Arrays]

LABELS = "accuracy"
AGREEMENT = "agreement"
EXPLAINED = "explained"

DEFAULT_DECISION = Decision()
"""What decides where the graph tells nothing: the largest entry of the last axis."""
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
    class_drop = max(score.class_drop, of_others.class_drop)
    return replace(score, value=value, count=first + second, in_settings=in_settings, class_drop=class_drop)


@dataclass(frozen=True)
class Scorer:
    """Scores models on the kept samples, and by the project's evaluation function where there is one.

    An output of another shape than the float model's, such as a text of another length, is wrong as a whole. It can be
    pickled, where the samples can.
    """

    references: References
    """Samples with the float model's answers; at least one."""
    metric: str
    """See :attr:`Score.metric`."""
    float_value: float
    """What the float model scores."""
    evaluation: Evaluation | None = None
    samples: Samples | None = None
    """What the evaluation function gets."""
    meaning: Meaning | None = None
    """Reads what outputs tell, where the metric is that."""
    doubt: str | None = None
    """Why the samples' labels do not count; None where they do, or where there are none."""
    decision: Decision = DEFAULT_DECISION
    """What decides in the first output, where the metric is agreement."""
    label_output: str | None = None
    """The output that tells the class, where the metric is the labels."""
    label_numbers: Sequence[int] = ()
    """What that output calls the classes, where it does not count them from 0."""
    ranks: bool = False
    """Whether the first output holds probabilities that give nearly all samples one class
    (:func:`edgekit_quantize.search.choices.only_ranks`), where the metric is the labels."""
    beside: Mapping[str, Decision] = field(default_factory=dict)
    """What other outputs decide (:mod:`edgekit_quantize.search.choices_beside`), where the metric is agreement or what
    is explained."""
    padding: Padding | None = None
    """Positions that are not judged; the references are without them."""
    by_margins: bool = False
    """Whether fewer than :data:`FEW_DECISIONS` are judged by how many are expected to change, see
    :class:`edgekit_quantize.search.margins.Margins`: for whoever tries many candidates and takes the first
    that holds, which may do so by luck."""

    @classmethod
    def by_references(
        cls,
        references: References,
        *,
        classes: bool,
        meaning: Meaning | None = None,
        choice: ClassChoice | None = None,
        decision: Decision | None = None,
        beside: Mapping[str, Decision] | None = None,
    ) -> Scorer:
        """Scores by labels where the samples have some that prove something, else by nearness to the float model.

        Labels of which the float model finds no more than a guess prove nothing
        (:meth:`edgekit.comparison.label_accuracy.TaskAccuracy.is_chance`).

        Args:
            references: Samples with the float model's answers; at least one.
            classes: Whether the first output decides between classes (:func:`edgekit_quantize.search.choices.decides`).
            meaning: Reads what outputs tell, where that is known.
            choice: What is known of the output that tells the class.
            decision: What decides in the first output, where the graph tells it
                (:mod:`edgekit.comparison.told_decisions`). Without it, numbers that are amounts decide nothing.
            beside: See :attr:`beside`; those of outputs in which the float model decides nothing do not count.
        """
        decision = decision or Decision()
        classes = classes and has_decisions(references, decision)
        told = None if meaning is None else _told(references, meaning)
        nearness = told.kind if told is not None else AGREEMENT if classes else EXPLAINED
        choice = choice_beside(meaning, choice)
        meaning = None if told is None else meaning
        if told is not None and isinstance(meaning, EmbeddingMeaning):
            meaning = EmbeddingMeaning(told.outputs)
        kept = {} if told is not None else {n: d for n, d in (beside or {}).items() if has_decisions(references, d, n)}
        task = _labels_found(references, choice)
        if task is None:
            labelled = any(reference.label is not None for reference in references.answers())
            unused = f"the samples have labels, but no output tells a class: candidates are judged by {nearness}"
            doubt = unused if labelled else None
            return cls(references, nearness, 1.0, meaning=meaning, doubt=doubt, decision=decision, beside=kept)
        if not task.is_chance(len(references)):
            numbers = choice.numbers.get(task.output, ())
            ranks = only_ranks(references, decision)
            return cls(references, LABELS, task.reference, label_output=task.output, label_numbers=numbers, ranks=ranks)
        among = "" if task.classes is None else f" among {task.classes} classes"
        doubt = (
            f"the float model finds {task.reference:.2%} of {len(references)} labels{among}, no more than a guess may "
            f"find: candidates are judged without them, by {nearness}; check the labels, the order of the classes, the "
            f"preprocessing and whether output {task.output!r} tells the class, or give more samples"
        )
        return cls(references, nearness, 1.0, meaning=meaning, doubt=doubt, decision=decision, beside=kept)

    @classmethod
    def by_evaluation(cls, references: References, evaluation: Evaluation, samples: Samples, float_run: Run) -> Scorer:
        """Scores by the project's evaluation function.

        Args:
            references: Samples with the float model's answers, for the SQNR; at least one.
            evaluation: The function.
            samples: What it gets.
            float_run: Executes the float model.

        Raises:
            InputError: The function fails, or gives 0 for the float model.
        """
        value = evaluation.of_original(float_run, samples)
        return cls(references, evaluation.name, value, evaluation, samples)

    def __call__(self, run: Run) -> Score:
        """Runs a candidate over the samples.

        Raises:
            edgekit.quantizer.CandidateError: It cannot be run.
        """
        (score,) = self.of_settings([[("", run)]])
        if isinstance(score, CandidateError):
            raise score
        return score

    def of_settings(
        self, candidates: Sequence[Sequence[tuple[str, Run]]], references: Iterable[Reference] | None = None
    ) -> list[Score | CandidateError]:
        """Scores of candidates that run in several settings each, for each that of its worst one.

        The samples are read once. A candidate that cannot be run gets what it failed by in place of a score.

        Args:
            candidates: What runs each of them in each setting, behind the setting's name.
            references: Other samples than :attr:`references`.
        """
        spread = self._judged_by_variance()
        tallies = [
            [
                _Tally(
                    self.metric,
                    spread,
                    self.meaning,
                    self.by_margins,
                    self.label_output,
                    self.label_numbers,
                    self.decision,
                    self.ranks,
                    self.beside,
                )
                for _ in runs
            ]
            for runs in candidates
        ]
        failed: dict[int, CandidateError] = {}

        def unless_failed(number: int, work: Callable[[], Score | None]) -> Score | None:
            try:
                return None if number in failed else work()
            except CandidateError as error:
                failed[number] = error
                return None

        for reference in self.references if references is None else references:
            for number, runs in enumerate(candidates):
                for tally, (_, run) in zip(tallies[number], runs, strict=True):
                    unless_failed(number, functools.partial(_add, tally, reference, run, self.padding))
        found: list[Score | CandidateError] = []
        for number, runs in enumerate(candidates):
            scores = [
                (name, unless_failed(number, functools.partial(self._score, tally, run)))
                for tally, (name, run) in zip(tallies[number], runs, strict=True)
            ]
            known = [replace(score, in_settings={name: score.value}) for name, score in scores if score is not None]
            found.append(failed[number] if number in failed else worst_of(known))
        return found

    def _judged_by_variance(self) -> dict[str, float]:
        """Variances of the outputs that are judged by them: all, or those beside embeddings."""
        if self.metric == EXPLAINED:
            return variances(self.references)
        if not isinstance(self.meaning, EmbeddingMeaning):
            return {}
        beside = set(self.meaning.outputs)
        return {name: each for name, each in variances(self.references).items() if name not in beside}

    def _score(self, tally: _Tally, run: Run) -> Score:
        sqnr = tally.sqnr_db
        if self.evaluation is not None and self.samples is not None:
            value = self.evaluation(run, self.samples)
            return Score(self.metric, value, self.float_value, sqnr, relative=True)
        value, count = self._value_and_count(tally)
        value, (of_head, head) = min(value, tally.integers_kept), tally.beside.worst
        head = head if of_head < value else None
        value = min(value, of_head)
        return Score(self.metric, value, self.float_value, sqnr, count, class_drop=tally.class_drop, head=head)

    def _value_and_count(self, tally: _Tally) -> tuple[float, int | None]:
        """What is measured without a function of the project's, and how many items it is a share of."""
        if tally.labels is not None:
            return tally.labels.accuracy, len(self.references)
        if tally.meaning is not None:
            told = tally.meaning.result()
            value = min(told.agreement, tally.explained) if told.shortfall(-math.inf) is None else 0.0
            return value, told.count if told.angles is None else None
        if self.metric == AGREEMENT:
            return tally.agreement, tally.positions
        return tally.explained, None


def _add(tally: _Tally, reference: Reference, run: Run, padding: Padding | None) -> None:
    outputs = run(reference.feeds)
    tally.add(reference, outputs if padding is None else padding.without(reference.feeds, outputs))


class _Tally:
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
    """

    def __init__(
        self,
        metric: str,
        variances: Mapping[str, float],
        meaning: Meaning | None = None,
        by_margins: bool = False,
        label_output: str | None = None,
        label_numbers: Sequence[int] = (),
        decision: Decision = DEFAULT_DECISION,
        ranks: bool = False,
        beside: Mapping[str, Decision] | None = None,
    ) -> None:
        self.beside = ChoicesKept(beside or {})
        self._order = Columns() if ranks else None
        self._label_output, self._label_numbers = label_output, label_numbers
        along_axis = decision.by is DecidedBy.LARGEST
        self._margins = Margins() if by_margins and metric == AGREEMENT and along_axis else None
        self._decision = decision
        self._decided = DecisionCount(decision)
        self.meaning = None if meaning is None else meaning.anew()
        self._metric = metric
        self._variances = variances
        self._power: dict[str, list[float]] = {}
        self._columns: dict[str, Columns] = {}
        self._integers: dict[str, list[int]] = {}
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
                    self._columns.setdefault(name, Columns()).add(expected, outputs[name])
            elif expected.dtype.kind in "iub" and not _is_picture(expected):
                unequal_and_all = self._integers.setdefault(name, [0, 0])
                found = np.asarray(outputs[name])
                same_shape = found.shape == expected.shape
                unequal_and_all[0] += int((found != expected).sum()) if same_shape else expected.size
                unequal_and_all[1] += expected.size
        if self.meaning is not None:
            self.meaning.add(reference.outputs, outputs)
        self.beside.add(reference.outputs, outputs)
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
        """The share of decisions that are the float model's; of few the expected one, unless more change surely.

        It is 0 where a class is lost, however few positions it has. Where the float model decides nearly always alike,
        the numbers may be a regression's: it is 0 with less of a signal than a bundle needs.
        """
        if self._decided.tells_one and self.sqnr_db < SQNR_FLOOR_DB[Kind.QUANTIZED]:
            return 0.0
        worst = self._decided.worst_class()
        if worst is not None and worst.is_lost:
            return 0.0
        if self._margins is None or self.positions >= FEW_DECISIONS:
            return self.same / self.positions
        changed = self.positions - self.same
        surely = max(0.0, changed - ONE_SIDED * math.sqrt(changed)) / self.positions
        return min(1 - surely, self._margins.expected_agreement())

    @property
    def _has_maps(self) -> bool:
        """Whether classes may be lost beside the signal: of maps, or of channels that may be their logits."""
        return self._decision.is_map or self._decision.are_channels

    @property
    def explained(self) -> float:
        """See :attr:`Score.metric`; 0 where a class is lost of which there is a map, or a channel that is surely it."""
        least = self._decided.worst_class() if self._has_maps else None
        if least is not None and (least.told or self._decision.are_channels) and least.is_lost:
            return 0.0
        noises = {name: noise for name, (_, noise) in self._power.items() if name in self._variances}
        ratios = [decibels(self._variances[name], noise) for name, noise in noises.items()]
        columns = [worst.explained for each in self._columns.values() if (worst := each.worst()) is not None]
        return max(0.0, min([1 - 10 ** (-min(ratios, default=math.inf) / 10), *columns]))

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


def _is_picture(output: np.ndarray) -> bool:
    """Whether integers are brightness: those of 8 bits with three axes or more."""
    return output.dtype.itemsize == 1 and output.dtype.kind != "b" and output.ndim >= PICTURE_RANK


def _told(references: References, meaning: Meaning) -> MeaningAccuracy | None:
    """What the float model tells; None where that is nothing."""
    fresh = meaning.anew()
    for reference in references.answers():
        fresh.add(reference.outputs, reference.outputs)
    told = fresh.result()
    return told if told.proves else None


def _labels_found(references: References, choice: ClassChoice) -> TaskAccuracy | None:
    """How many labels the float model finds; None without labels, or where no output tells a class."""
    count: LabelCount | None = None
    for reference in references.answers():
        if reference.label is not None:
            output = class_output(reference.outputs, choice)
            if output is None:
                return None
            count = count or LabelCount(output, choice.numbers.get(output, ()))
            count.add(reference.label, reference.outputs, reference.name)
    return None if count is None else TaskAccuracy(count.output, count.accuracy, count.accuracy, count.classes)
