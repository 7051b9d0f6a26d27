"""Runs an original and the model built from it on the same samples, and compares their outputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import numpy as np

from edgekit.comparison.boxes.detectors import UNDECLARED
from edgekit.comparison.boxes.near import nearly_recognised
from edgekit.comparison.decisions.exchanged_labels import exchanged_labels
from edgekit.comparison.decisions.label_accuracy import LabelCount, TaskAccuracy, class_output
from edgekit.comparison.decisions.recalls import worst_class
from edgekit.comparison.decisions.shared import Decision
from edgekit.comparison.floors import SQNR_FLOOR_DB, Kind
from edgekit.comparison.meaning import (
    SEEN,
    AnchorMeaning,
    BoxMeaning,
    Meaning,
    as_shown,
    choice_beside,
    embeddings_among,
    meaning_of,
    text_among,
)
from edgekit.comparison.meaning_accuracy import MeaningAccuracy
from edgekit.comparison.numbers.metrics import Comparison, OtherFormError, OutputAccuracy
from edgekit.comparison.numbers.ranked import RankedRows, is_ranked, ranked_rows
from edgekit.comparison.padding import Padding
from edgekit.data.samples import FolderSamples, Sample, Samples
from edgekit.execution.recurrence import restart
from edgekit.features.class_scores import ClassChoice
from edgekit.model import Arrays, Model
from edgekit.processes.supervision import tell_step

NO_ORDER = (
    'whether x or y comes first in the boxes is not seen on these samples: [outputs] order = "xy", or "yx", in the '
    "project file says it; without it the code that ships in the bundle finds no boxes"
)


class Executor(Protocol):
    """Runs a model: the original's reference session, or a built artifact's runner."""

    @property
    def executed_by(self) -> str:
        """What really executes."""

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name."""


def compare(
    samples: Samples,
    original: Executor,
    built: Executor,
    outputs: tuple[str, ...],
    step: Callable[[str, int, int], None] | None = None,
    meaning: Meaning | None = None,
    ranked: RankedRows | None = None,
    decisions: Mapping[str, Decision | None] | None = None,
    quantized: Collection[str] = (),
    choice: ClassChoice | None = None,
    padding: Padding | None = None,
) -> tuple[tuple[OutputAccuracy, ...], TaskAccuracy | None]:
    """Runs both models on all samples, and compares their outputs; with states, samples are the steps of one sequence.

    Args:
        samples: What to run them on.
        original: The float model.
        built: What was built from it.
        outputs: The original's outputs, in order.
        step: Told how many samples are done.
        meaning: Gathers what the outputs tell; see :func:`meaning_on`.
        ranked: Reorders rows to match the original's; see :func:`ranked_on`.
        decisions: What counts as a decision in the outputs of which the graph tells it; see
            :mod:`edgekit.comparison.decisions.from_graph`.
        quantized: The outputs that hold quantized numbers; see :mod:`edgekit.comparison.numbers.quantized_outputs`.
        choice: What is known of the output that tells the class.
        padding: Positions that are not compared; see :func:`edgekit.comparison.padding.padding_on`.

    Returns:
        The accuracy of each output, and the shares of labels found, or None unless the samples have labels and an
        output tells the class (see :func:`edgekit.comparison.decisions.label_accuracy.class_output`).

    Raises:
        edgekit.errors.RequirementError: The built model lacks an output.
        edgekit.comparison.numbers.metrics.OtherFormError: An output has another shape or dtype; the error holds the
            sample.
        edgekit.errors.InputError: A sample cannot be read, or its label is no class.
    """
    rows = () if ranked is None else ranked.outputs
    placed = meaning.placing if isinstance(meaning, AnchorMeaning | BoxMeaning) else ()
    deciding: dict[str, Decision | None] = {**(decisions or {}), **dict.fromkeys((*rows, *placed))}
    comparison = Comparison(outputs, deciding, quantized)
    restart(original)
    restart(built)
    labels = _Labels(outputs, choice_beside(meaning, choice))
    for done, sample in enumerate(samples, 1):
        wanted, got = original.run(sample.feeds), built.run(sample.feeds)
        if padding is not None:
            wanted, got = padding.without(sample.feeds, wanted), padding.without(sample.feeds, got)
        try:
            comparison.add(wanted, got if ranked is None else ranked.add(wanted, got))
        except OtherFormError as error:
            error.sample = done - 1
            raise
        if meaning is not None:
            meaning.add(wanted, got)
        labels.add(sample, wanted, got)
        tell_step()
        if step is not None:
            step("sample", done, len(samples))
    return comparison.results(), labels.found(samples)


class _Labels:
    """Counts how many labels of samples the original and the built model find."""

    def __init__(self, outputs: Collection[str], choice: ClassChoice) -> None:
        self._outputs, self._choice = outputs, choice
        self._counts: tuple[LabelCount, LabelCount] | None = None

    def add(self, sample: Sample, wanted: Arrays, got: Arrays) -> None:
        """Counts the outputs for a sample; one without a label is left out.

        Raises:
            edgekit.errors.InputError: Its label is no class.
        """
        if sample.label is None:
            return
        compared = {output: wanted[output] for output in self._outputs}
        if self._counts is None and (name := class_output(compared, self._choice)) is not None:
            numbers = self._choice.numbers.get(name, ())
            self._counts = LabelCount(name, numbers), LabelCount(name, numbers)
        for count, arrays in zip(self._counts or (), (wanted, got), strict=False):
            count.add(sample.label, arrays, sample.where)

    def found(self, samples: Samples) -> TaskAccuracy | None:
        """The shares of labels that both models find; None if no sample has one, or no output tells a class."""
        if self._counts is None:
            return None
        original, built = self._counts
        areas = original.ranking.area(), built.ranking.area()
        return TaskAccuracy(
            original.output,
            original.accuracy,
            built.accuracy,
            original.classes,
            samples.numbered if isinstance(samples, FolderSamples) else None,
            worst_class(original.by_class, built.by_class),
            exchanged_labels(original.answers),
            None if areas[0] is None or areas[1] is None else (areas[0], areas[1]),
            original.listed,
        )


def meaning_on(samples: Samples, original: Executor, model: Model) -> Meaning | None:
    """Returns what a model's outputs mean, as seen on the first samples, or None if that is not known.

    Args:
        samples: What to look at.
        original: Executes the model.
        model: The float model.

    Raises:
        edgekit.errors.InputError: The user names outputs that are not read as boxes, or that are no embeddings.
    """
    if model.states:
        return None
    shown = [sample.feeds for sample in itertools.islice(samples, SEEN)]
    answers = [original.run(feeds) for feeds in shown]
    classes = len(model.class_names) or None
    names = model.class_names
    if model.open_dims:
        declared = model.declared is not None and bool(model.declared.embeddings)
        text = None if declared else text_among(answers, model.fed_inputs, names)
        return text or embeddings_among(answers, classes, model.declared, model.graph)
    inputs = as_shown(model.fed_inputs, shown)
    meaning = meaning_of(answers, inputs, classes, model.declared, model.graph, names)
    return meaning.placed(shown, answers, original.run, inputs) if isinstance(meaning, BoxMeaning) else meaning


def unread_boxes(samples: Samples, original: Executor, model: Model, meaning: MeaningAccuracy | None) -> list[str]:
    """Returns warnings of boxes that are not read, or whose order of coordinates is unknown; else an empty list.

    Args:
        samples: What was compared on.
        original: Executes the model.
        model: The float model.
        meaning: What the outputs tell; None if that is not known.
    """
    if meaning is not None:
        return [NO_ORDER] if meaning.boxes is not None and meaning.boxes.get("order", "xy") is None else []
    if model.states or model.open_dims:
        return []
    shown = [sample.feeds for sample in itertools.islice(samples, SEEN)]
    answers, inputs = [original.run(feeds) for feeds in shown], as_shown(model.fed_inputs, shown)
    near = nearly_recognised(answers, inputs, len(model.class_names) or None, model.declared or UNDECLARED)
    return [] if near is None else [str(near)]


def ranked_on(samples: Samples, original: Executor, model: Model, kind: Kind) -> RankedRows | None:
    """Returns how rows by falling score are matched, as seen on the first samples, or None if there are none.

    Args:
        samples: What to look at.
        original: Executes the model.
        model: The float model.
        kind: What was built.
    """
    if model.states or not is_ranked(model.graph):
        return None
    answers = [original.run(sample.feeds) for sample in itertools.islice(samples, SEEN)]
    return ranked_rows(answers, model.graph, SQNR_FLOOR_DB[kind], leaves_out=kind is Kind.FLOAT32)
