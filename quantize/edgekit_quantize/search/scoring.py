"""Scores models by how close they are to the float model, by labels, or by the project's own function."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from edgekit.comparison.custom_metric import Evaluation
from edgekit.comparison.decisions.label_accuracy import LabelCount, TaskAccuracy, class_output
from edgekit.comparison.decisions.shared import Decision
from edgekit.comparison.meaning import EmbeddingMeaning, Meaning, choice_beside
from edgekit.comparison.meaning_accuracy import MeaningAccuracy
from edgekit.comparison.padding import Padding
from edgekit.data.samples import Samples
from edgekit.features.class_scores import EMBEDDINGS, ClassChoice
from edgekit.model import Arrays
from edgekit.quantizer import CandidateError
from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.search.choices import has_decisions, only_ranks
from edgekit_quantize.search.choices_beside import Others, is_decided
from edgekit_quantize.search.score import AGREEMENT, EXPLAINED, LABELS, Score, worst_of
from edgekit_quantize.search.tally import DEFAULT_DECISION, Tally
from edgekit_quantize.search.variances import variances

Run = Callable[[Mapping[str, np.ndarray]], Arrays]

PART = 4
"""Candidates are first scored on every PART-th sample."""
AT_FIRST = {EXPLAINED: 16, AGREEMENT: 64}
"""The minimum number of samples in that part, for the metrics that can be scored on a part: a decision says less than a
power of an error."""


@dataclass(frozen=True)
class Scorer:
    """Scores models on the kept samples, or by the project's evaluation function if there is one.

    An output whose shape differs from the float model's, such as a text of another length, counts as completely wrong.
    A scorer can be pickled if the samples can.
    """

    references: References
    """Samples with the float model's answers; at least one."""
    metric: str
    """See :attr:`Score.metric`."""
    float_value: float
    """The float model's value."""
    evaluation: Evaluation | None = None
    samples: Samples | None = None
    """The samples that the evaluation function gets."""
    meaning: Meaning | None = None
    """Interprets the outputs, if the metric is that of their meaning."""
    doubt: str | None = None
    """Why the samples' labels do not count; None if they do, or if there are none."""
    unread: str | None = None
    """A description of outputs that look like a detector's boxes but do not count as such; None if there are none."""
    few_classes: str | None = None
    """What the samples show too little of, if boxes are counted
    (:attr:`edgekit.comparison.meaning_accuracy.MeaningAccuracy.few_classes`)."""
    decision: Decision = DEFAULT_DECISION
    """The decision in the first output, if the metric is agreement."""
    label_output: str | None = None
    """The output that holds the class, if the metric is the labels."""
    label_numbers: Sequence[int] = ()
    """The numbers that this output uses for the classes, if it does not count them from 0."""
    ranks: bool = False
    """Whether the first output holds probabilities that give nearly all samples one class
    (:func:`edgekit_quantize.search.choices.only_ranks`), if the metric is the labels."""
    beside: Mapping[str, Decision] = field(default_factory=dict)
    """The decisions of further outputs, by name (:mod:`edgekit_quantize.search.choices_beside`): each of them has the
    same budget as the metric."""
    signals: Collection[str] = ()
    """Float outputs that decide nothing and that the metric does not cover: each needs the SQNR that a bundle's outputs
    need."""
    head_weight: float = 1.0
    """See :attr:`Score.head_weight`."""
    padding: Padding | None = None
    """Positions that are not scored; the references are without them."""
    by_margins: bool = False
    """Whether, with fewer than :data:`edgekit_quantize.search.margins.FEW_DECISIONS` decisions, the kept share is the
    one expected from an exponential distribution of margins, whatever the samples' margins are. This is for searches
    that try many candidates and take the first that holds the budget, which may do so by chance."""

    @property
    def left_to_verify(self) -> list[str]:
        """Remarks on the samples for users, which the verification of a bundle reports."""
        return [text for text in (self.unread, self.few_classes) if text is not None]

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
        signals: Collection[str] = (),
        alike: Callable[[str], Collection[str]] = lambda name: {name},
    ) -> Scorer:
        """Scores by labels if the samples have meaningful ones, else by closeness to the float model.

        Labels are meaningless if the float model finds no more of them than a guess would
        (:meth:`edgekit.comparison.decisions.label_accuracy.TaskAccuracy.is_chance`).

        Args:
            references: Samples with the float model's answers; at least one.
            classes: Whether the first output decides between classes (:func:`edgekit_quantize.search.choices.decides`).
            meaning: Interprets the outputs, if their meaning is known.
            choice: What is known of the output that holds the class.
            decision: The decision in the first output, if the graph shows it
                (:mod:`edgekit.comparison.decisions.from_graph`). Without it, an output of amounts decides nothing.
            beside: The decisions that outputs may hold; an output in which the float model decides nothing is a signal
                instead. If only the first output decides, it is judged by its metric alone.
            signals: See :attr:`signals`; heads, and outputs that the metric covers, are left out.
            alike: Returns the outputs with the same decision as a given one, including that one
                (:func:`edgekit_quantize.search.choices_beside.choosing_like`).
        """
        decision = decision or Decision()
        classes = classes and has_decisions(references, decision)
        first = next((next(iter(each.outputs)) for each in references.answers()), "")
        decided = {name: each for name, each in (beside or {}).items() if is_decided(references, each, name)}
        if classes:
            decided = {first: decision, **decided}
        elif [*decided] == [first]:
            decided = {}
        others = Others(decided, signals, alike)
        choice = choice_beside(meaning, choice)
        task = _labels_found(references, choice)
        if task is not None and not task.is_chance(len(references)):
            heads, rest = others.beside([task.output])
            return cls(
                references,
                LABELS,
                task.reference,
                label_output=task.output,
                label_numbers=choice.numbers.get(task.output, ()),
                ranks=only_ranks(references, decision),
                beside=heads,
                signals=rest,
            )
        nearest = cls._by_nearness(references, meaning, decision, first if classes else None, others)
        return replace(nearest, doubt=_doubt(references, task, nearest.metric))

    @classmethod
    def _by_nearness(
        cls, references: References, meaning: Meaning | None, decision: Decision, chooser: str | None, others: Others
    ) -> Scorer:
        """Scores by closeness to the float model: of the meaning, of the decisions, or of the numbers.

        Args:
            references: Samples with the float model's answers; at least one.
            meaning: Interprets the outputs; it counts only if the float model's own answers have it.
            decision: The decision in the first output.
            chooser: The first output, if it decides between classes.
            others: The outputs that are judged beside those of the metric.
        """
        found = None if meaning is None else _of_itself(references, meaning)
        if found is not None and found.proves:
            metric, covered, few_classes = found.kind, [*found.outputs], found.few_classes
            meaning = EmbeddingMeaning(found.outputs) if isinstance(meaning, EmbeddingMeaning) else meaning
        else:
            metric, covered = (EXPLAINED, []) if chooser is None else (AGREEMENT, [chooser])
            meaning = few_classes = None
        heads, rest = others.beside(covered)
        return cls(
            references,
            metric,
            1.0,
            meaning=meaning,
            decision=decision,
            beside=heads,
            signals=() if metric in {EXPLAINED, EMBEDDINGS} else rest,
            unread=None if found is None else found.too_few,
            few_classes=few_classes,
        )

    @classmethod
    def by_evaluation(cls, references: References, evaluation: Evaluation, samples: Samples, float_run: Run) -> Scorer:
        """Scores by the project's evaluation function.

        Args:
            references: Samples with the float model's answers, for the SQNR; at least one.
            evaluation: The function.
            samples: The samples that the function gets.
            float_run: Executes the float model.

        Raises:
            InputError: The function fails, or gives 0 for the float model.
        """
        value = evaluation.of_original(float_run, samples)
        return cls(references, evaluation.name, value, evaluation, samples)

    def among_every_other(self) -> Scorer:
        """The same scorer for every other sample (:meth:`References.every_other`)."""
        references, _ = self.references.every_other()
        if self.label_output is None:
            return replace(self, references=references)
        count = LabelCount(self.label_output, self.label_numbers)
        for each in references.answers():
            if each.label is not None:
                count.add(each.label, each.outputs, each.name)
        return replace(self, references=references, float_value=count.accuracy)

    def __call__(self, run: Run) -> Score:
        """The score of a candidate on the samples.

        Raises:
            edgekit.quantizer.CandidateError: The candidate cannot be run.
        """
        (score,) = self.of_settings([[("", run)]])
        if isinstance(score, CandidateError):
            raise score
        return score

    def of_settings(
        self, candidates: Sequence[Sequence[tuple[str, Run]]], references: Iterable[Reference] | None = None
    ) -> list[Score | CandidateError]:
        """The score of each candidate in the worst of its settings.

        The samples are read once. For a candidate that cannot be run, its error is returned instead of a score.

        Args:
            candidates: For each candidate, the name of each setting and the function that runs it there.
            references: The samples to use instead of :attr:`references`.
        """
        one_pass = _Pass(self, candidates)
        one_pass.over(self.references if references is None else references)
        return one_pass.scores()

    def at_first(
        self, candidates: Sequence[Sequence[tuple[str, Run]]], max_drop: float | None
    ) -> list[Score | CandidateError]:
        """Scores like :meth:`of_settings`, on as few samples as show whether candidates may hold a budget.

        All candidates are run on every :data:`PART`-th sample. A candidate that loses at most the budget there, or
        surely loses more (:attr:`edgekit_quantize.search.tally.Tally.surely_lost`), is not run on the others: its score
        has :attr:`Score.samples`. All samples are used if there are few, or if the metric is not in :data:`AT_FIRST`.
        Signal-to-noise ratios are those of the first samples, so that they are comparable between candidates.

        Args:
            candidates: See :meth:`of_settings`.
            max_drop: The budget; None runs all candidates on all samples.
        """
        if max_drop is None or self._runs_all:
            return self.of_settings(candidates)
        first, rest = self.references.parted(PART)
        one_pass = _Pass(self, candidates)
        one_pass.over(first, len(first) / len(self.references))
        at_first = {number: score for number, score in enumerate(one_pass.scores()) if isinstance(score, Score)}
        in_doubt = {
            number
            for number, score in at_first.items()
            if score.drop > max_drop and one_pass.surely_lost(number) <= max_drop
        }
        if in_doubt:
            one_pass.over(rest, among=in_doubt)
        found = one_pass.scores()
        for number, score in at_first.items():
            whole = found[number]
            if number not in in_doubt:
                found[number] = replace(score, samples=len(first))
            elif isinstance(whole, Score):
                found[number] = replace(whole, sqnr_db=score.sqnr_db)
        return found

    @property
    def _runs_all(self) -> bool:
        """Whether :meth:`at_first` runs candidates on all samples."""
        fewest = AT_FIRST.get(self.metric)
        return fewest is None or self.evaluation is not None or len(self.references) < PART * fewest

    def at_first_with(
        self, part: Scorer, candidates: Sequence[Sequence[tuple[str, Run]]], max_drop: float | None
    ) -> list[list[Score | CandidateError]]:
        """What :meth:`at_first` returns for this scorer, and for another one whose samples are a part of these.

        If both use all of their samples, each sample is run once.
        """
        places = {id(each.outputs) for each in part.references.answers()}
        is_part = places <= {id(each.outputs) for each in self.references.answers()}
        if not is_part or not (max_drop is None or (self._runs_all and part._runs_all)):
            return [scorer.at_first(candidates, max_drop) for scorer in (self, part)]
        whole, some = _Pass(self, candidates), _Pass(part, candidates)
        whole.over(self.references, part=(some, places))
        return [whole.scores(), some.scores()]

    def tally(self) -> Tally:
        """A new tally for the outputs of one candidate."""
        return Tally(
            self.metric,
            self._judged_by_variance,
            meaning=self.meaning,
            by_margins=self.by_margins,
            label_output=self.label_output,
            label_numbers=self.label_numbers,
            decision=self.decision,
            ranks=self.ranks,
            beside=self.beside,
            signals=self.signals,
        )

    @functools.cached_property
    def _judged_by_variance(self) -> dict[str, float]:
        """The variances of the outputs that are judged by them: all, or all except embeddings; else none."""
        if self.metric == EXPLAINED:
            return variances(self.references)
        if not isinstance(self.meaning, EmbeddingMeaning):
            return {}
        beside = set(self.meaning.outputs)
        return {name: each for name, each in variances(self.references).items() if name not in beside}

    def score(self, tally: Tally, run: Run) -> Score:
        """The score by a tally, or by the project's evaluation function if there is one.

        Raises:
            edgekit.quantizer.CandidateError: The candidate cannot be run.
        """
        sqnr = tally.sqnr_db
        if self.evaluation is not None and self.samples is not None:
            value = self.evaluation(run, self.samples)
            return Score(self.metric, value, self.float_value, sqnr, relative=True)
        value, count = self._value_and_count(tally)
        value, drop = min(value, tally.integers_kept), tally.class_drop
        lost = None if tally.labels is not None or value > 0 else tally.lost_class
        return Score(
            self.metric,
            value,
            self.float_value,
            sqnr,
            count,
            class_drop=drop,
            heads=tally.heads,
            head_weight=self.head_weight,
            lost_class=None if lost is None else str(lost),
        )

    def _value_and_count(self, tally: Tally) -> tuple[float, int | None]:
        """The value of the metric from a tally, and the number of items that it is a share of, if it is one."""
        if tally.labels is not None:
            return tally.labels.accuracy, len(self.references)
        if tally.meaning is not None:
            result = tally.meaning.result()
            return _least_kept(result, tally.explained), result.count if result.angles is None else None
        if self.metric == AGREEMENT:
            return tally.agreement, tally.positions
        return tally.explained, None


def _least_kept(accuracy: MeaningAccuracy, explained: float) -> float:
    """The share that is right of what the outputs mean, or what is explained of other outputs, whichever is less.

    If a floor is missed, embeddings are worth what is explained of them, or the share that is not lost, whichever is
    less, so that a miss that a few layers cause is known from one that nothing mends; all else is worth 0.
    """
    if accuracy.shortfall(-math.inf) is None:
        return min(accuracy.agreement, explained)
    if accuracy.angles is None:
        return 0.0
    kept = 1 - accuracy.angles.lost / accuracy.angles.vectors
    return max(0.0, min(accuracy.agreement, explained, accuracy.angles.explained, kept))


class _Pass:
    """A pass over samples with candidates that run in several settings each; see :meth:`Scorer.of_settings`."""

    def __init__(self, scorer: Scorer, candidates: Sequence[Sequence[tuple[str, Run]]]) -> None:
        self._scorer, self._candidates = scorer, candidates
        self._tallies = [[scorer.tally() for _ in runs] for runs in candidates]
        self._failed: dict[int, CandidateError] = {}

    def over(
        self,
        references: Iterable[Reference],
        share: float = 1.0,
        among: Collection[int] | None = None,
        part: tuple[_Pass, Collection[int]] | None = None,
    ) -> None:
        """Run candidates on further samples.

        Args:
            references: The samples.
            share: The share of all samples that have been run after this call.
            among: The indices of the candidates that are run; None runs all.
            part: Another pass that gets the outputs for some of the samples, and the ``id`` of these samples' answers.
        """
        numbers = range(len(self._candidates)) if among is None else sorted(among)
        for number in numbers:
            for tally in self._tallies[number]:
                tally.share = share
        most = max((len(self._candidates[number]) for number in numbers), default=1)
        with ThreadPoolExecutor(most) as threads:
            for reference in references:
                for number in numbers:
                    if number not in self._failed:
                        self._add(number, reference, threads, part)

    def _add(
        self, number: int, reference: Reference, threads: Executor, part: tuple[_Pass, Collection[int]] | None
    ) -> None:
        """Run a candidate on a sample: in several settings at once, as most of them are processes of one thread."""
        runs = [run for _, run in self._candidates[number]]
        other, places = part or (None, ())
        try:
            if len(runs) == 1:
                found = [runs[0](reference.feeds)]
            else:
                found = [*threads.map(lambda run: run(reference.feeds), runs)]
            self._take(number, reference, found)
            if other is not None and id(reference.outputs) in places:
                other._take(number, reference, found)
        except CandidateError as error:
            self._failed[number] = error
            if other is not None:
                other._failed[number] = error

    def _take(self, number: int, reference: Reference, found: Sequence[Arrays]) -> None:
        padding = self._scorer.padding
        for tally, outputs in zip(self._tallies[number], found, strict=True):
            tally.add(reference, outputs if padding is None else padding.without(reference.feeds, outputs))

    def scores(self) -> list[Score | CandidateError]:
        """The score of each candidate in its worst setting, or the error that it failed with."""
        return [self._score(number) for number in range(len(self._candidates))]

    def surely_lost(self, number: int) -> float:
        """A lower bound for the loss of a candidate on all samples, from those that were run."""
        return max(tally.surely_lost for tally in self._tallies[number])

    def _score(self, number: int) -> Score | CandidateError:
        scores = [
            (name, self._unless_failed(number, functools.partial(self._scorer.score, tally, run)))
            for tally, (name, run) in zip(self._tallies[number], self._candidates[number], strict=True)
        ]
        known = [replace(score, in_settings={name: score.value}) for name, score in scores if score is not None]
        return self._failed[number] if number in self._failed else worst_of(known)

    def _unless_failed(self, number: int, work: Callable[[], Score | None]) -> Score | None:
        try:
            return None if number in self._failed else work()
        except CandidateError as error:
            self._failed[number] = error
            return None


def _of_itself(references: References, meaning: Meaning) -> MeaningAccuracy:
    """The accuracy of the float model's meaning compared with itself."""
    fresh = meaning.anew()
    for reference in references.answers():
        fresh.add(reference.outputs, reference.outputs)
    return fresh.result()


def _doubt(references: References, task: TaskAccuracy | None, metric: str) -> str | None:
    """Why the samples' labels do not count; None if there are none.

    Args:
        references: The samples.
        task: What the float model finds of the labels; None if no output tells a class.
        metric: What candidates are judged by instead.
    """
    if task is not None:
        among = "" if task.classes is None else f" among {task.classes} classes"
        return (
            f"the float model finds {task.reference:.2%} of {len(references)} labels{among}, no more than a guess "
            f"may find: candidates are judged by {metric}, without the labels; check the labels, the order of the "
            f"classes, the preprocessing and whether output {task.output!r} tells the class, or give more samples"
        )
    if any(reference.label is not None for reference in references.answers()):
        return f"the samples have labels, but no output tells a class: candidates are judged by {metric}"
    return None


def _labels_found(references: References, choice: ClassChoice) -> TaskAccuracy | None:
    """How many labels the float model finds; None without labels, or if no output holds a class."""
    count: LabelCount | None = None
    for reference in references.answers():
        if reference.label is not None:
            output = class_output(reference.outputs, choice)
            if output is None:
                return None
            count = count or LabelCount(output, choice.numbers.get(output, ()))
            count.add(reference.label, reference.outputs, reference.name)
    return None if count is None else TaskAccuracy(count.output, count.accuracy, count.accuracy, count.classes)
