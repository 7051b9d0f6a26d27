"""What outputs tell beyond numbers, where that is known: a detector's boxes, a recognizer's text, an encoder's angles.

Of a detector whose anchors the app holds, the confident anchors are compared.

Two models are as near to each other as what users take from their outputs. A box of the built model may come from the
neighboring cell and still be the same after suppression. A detector's coordinates are hundreds of times as large as its
scores, so that a ratio of powers does not show errors of the scores. Embeddings are compared by their angle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from edgekit.comparison import ctc
from edgekit.comparison.boxes import detectors
from edgekit.comparison.boxes.anchors import AnchorReading, anchors_among, anchors_of_both
from edgekit.comparison.boxes.attributes import AttributeAccuracy, AttributeTally
from edgekit.comparison.boxes.matching import CONFIDENT, DOUBTFUL, Boxes, partners
from edgekit.comparison.boxes.mirroring import mirrored_answers, with_order, with_origin
from edgekit.comparison.boxes.reading import Detector, OnGrids, Reading, Rows
from edgekit.comparison.embeddings.angles import VectorPairs, worst_of
from edgekit.comparison.embeddings.encoders import FEWEST_NUMBERS, embeddings_of, rows_of
from edgekit.comparison.meaning_accuracy import ANCHORS, BOXES, TEXT, MeaningAccuracy
from edgekit.comparison.peaks import peaks_among
from edgekit.errors import InputError
from edgekit.features.class_scores import EMBEDDINGS, ClassChoice
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Arrays, ValueSpec

SEEN = 8
"""On how many samples the meaning of outputs is looked for."""


class Meaning(Protocol):
    """Gathers a :class:`MeaningAccuracy`."""

    def add(self, reference: Mapping[str, np.ndarray], built: Mapping[str, np.ndarray]) -> None:
        """Compares what two models tell of one more sample."""

    def result(self) -> MeaningAccuracy:
        """What the samples so far say."""

    def anew(self) -> Meaning:
        """Returns a new object of the same settings, without samples."""


Partners = Callable[[Boxes, Boxes], tuple[int, list[tuple[int, int, float]]]]
"""Finds which boxes of a model the other model has too: see :func:`edgekit.comparison.boxes.matching.partners`."""


class FoundBoxes:
    """Boxes that two models find, over all samples."""

    def __init__(self) -> None:
        self.count = self.wrong = self.of_original = 0
        self._overlaps: list[float] = []
        self._shown: set[int] = set()
        self._known: int | None = None
        self._beside = AttributeTally()

    def add(self, ours: Boxes, theirs: Boxes, partners_of: Partners, numbers_beside: np.ndarray | None) -> None:
        """Takes one more sample.

        Args:
            ours: The original's boxes.
            theirs: The built model's boxes.
            partners_of: Finds which of one model's boxes the other model has.
            numbers_beside: (rows, columns): further numbers of all rows of the original, such as key points; None if
                there are none.
        """
        self._known = ours.known_classes
        self._shown.update(ours.classes[ours.scores >= CONFIDENT].tolist())
        for one, other in ((ours, theirs), (theirs, ours)):
            counted, found = partners_of(one, other)
            self.count += counted
            self.of_original += counted if one is ours else 0
            self.wrong += counted - len(found)
            self._overlaps += [overlap for _, _, overlap in found]
            if one is ours and numbers_beside is not None:
                self._beside.add(ours, theirs, [(place, partner) for place, partner, _ in found], numbers_beside)

    @property
    def overlap(self) -> float | None:
        """The mean intersection over union of the boxes that both models have; None without any."""
        return sum(self._overlaps) / len(self._overlaps) if self._overlaps else None

    @property
    def beside(self) -> AttributeAccuracy | None:
        """How near the further numbers, such as key points, of boxes of both models are; None without any."""
        return self._beside.result()

    def result(
        self, kind: str, reading: Reading, boxes: Mapping[str, Any] | None, names: int | None
    ) -> MeaningAccuracy:
        """What the samples so far say.

        Args:
            kind: What is counted.
            reading: How outputs are read.
            boxes: How programs read the boxes; None for anchors.
            names: How many classes have names; None if none have. Used if the outputs do not show how many classes
                there are.
        """
        known = names if self._known is None else self._known
        return MeaningAccuracy(
            kind,
            reading.outputs,
            reading.read_as,
            self.count,
            self.wrong,
            self.overlap,
            boxes,
            beside=self.beside,
            of_original=self.of_original,
            shown_classes=None if known is None else len(self._shown),
            known_classes=known,
        )


class BoxMeaning:
    """Counts boxes that only one of two models finds."""

    def __init__(self, detector: Detector, names: int | None = None) -> None:
        self._detector = detector
        self._names = names
        self._found = FoundBoxes()

    @property
    def detector(self) -> Detector:
        """How the boxes are read."""
        return self._detector

    @property
    def placing(self) -> tuple[str, ...]:
        """The outputs that hold coordinates, of which the largest is no decision."""
        return self._detector.placing

    def add(self, reference: Mapping[str, np.ndarray], built: Mapping[str, np.ndarray]) -> None:
        """See :class:`Meaning`."""
        ours, theirs = self._detector.read(dict(reference)), self._detector.read(dict(built))
        numbers_beside = None if self._detector.beside is None else self._detector.beside.of(dict(reference))
        numbers_beside = (
            None if numbers_beside is None else numbers_beside[numbers_beside.any(axis=1)]
        )  # zeros follow the last box
        self._found.add(ours, theirs, partners, numbers_beside)

    def result(self) -> MeaningAccuracy:
        """See :class:`Meaning`."""
        return self._found.result(BOXES, self._detector, self._detector.as_record(), self._names)

    def anew(self) -> BoxMeaning:
        """See :class:`Meaning`."""
        return BoxMeaning(self._detector, self._names)

    def placed(
        self,
        shown: Sequence[Mapping[str, np.ndarray]],
        answers: Sequence[Arrays],
        run: Callable[[Mapping[str, np.ndarray]], Arrays],
        inputs: Sequence[ValueSpec],
    ) -> BoxMeaning:
        """Returns the meaning with the order or origin of the boxes' coordinates, as far as mirrored pictures show it.

        See :mod:`edgekit.comparison.boxes.mirroring`.
        """
        picture = detectors.picture_among(inputs)
        if picture is None:
            return self
        mirrored = mirrored_answers(self._detector, shown, answers, run, picture)
        if isinstance(self._detector, OnGrids):
            return BoxMeaning(with_origin(self._detector, mirrored), self._names)
        if isinstance(self._detector, Rows):
            return BoxMeaning(with_order(self._detector, mirrored), self._names)
        return self


class AnchorMeaning:
    """Counts anchors of which only one of two models is confident; see :mod:`edgekit.comparison.boxes.anchors`."""

    def __init__(self, reading: AnchorReading) -> None:
        self._reading = reading
        self._found = FoundBoxes()

    @property
    def placing(self) -> tuple[str, ...]:
        """The outputs that hold offsets, of which the largest is no decision."""
        return self._reading.placing

    def add(self, reference: Mapping[str, np.ndarray], built: Mapping[str, np.ndarray]) -> None:
        """See :class:`Meaning`."""
        ours, theirs = self._reading.read(dict(reference)), self._reading.read(dict(built))
        numbers_beside = None if ours.beside is None else ours.beside[ours.scores >= CONFIDENT]
        self._found.add(ours, theirs, anchors_of_both, numbers_beside)

    def result(self) -> MeaningAccuracy:
        """See :class:`Meaning`."""
        return self._found.result(ANCHORS, self._reading, None, None)

    def anew(self) -> AnchorMeaning:
        """See :class:`Meaning`."""
        return AnchorMeaning(self._reading)


class TextMeaning:
    """Counts characters that differ."""

    def __init__(self, recognizer: ctc.Recognizer) -> None:
        self._recognizer = recognizer
        self._count = self._wrong = 0

    def add(self, reference: Mapping[str, np.ndarray], built: Mapping[str, np.ndarray]) -> None:
        """See :class:`Meaning`."""
        wanted, got = self._recognizer.read(dict(reference)), self._recognizer.read(dict(built))
        self._count += len(wanted)
        self._wrong += ctc.edits(wanted, got)

    def result(self) -> MeaningAccuracy:
        """See :class:`Meaning`."""
        read_as = "the most probable class of every step, without repetitions and blanks"
        return MeaningAccuracy(TEXT, (self._recognizer.output,), read_as, self._count, self._wrong, None)

    def anew(self) -> TextMeaning:
        """See :class:`Meaning`."""
        return TextMeaning(self._recognizer)


class EmbeddingMeaning:
    """Compares vectors by their angle; see :mod:`edgekit.comparison.embeddings.angles`."""

    def __init__(self, outputs: Sequence[str]) -> None:
        self._pairs = {name: VectorPairs() for name in outputs}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that are embeddings."""
        return tuple(self._pairs)

    def add(self, reference: Mapping[str, np.ndarray], built: Mapping[str, np.ndarray]) -> None:
        """See :class:`Meaning`."""
        for name, pairs in self._pairs.items():
            pairs.add(reference[name], built[name])

    def result(self) -> MeaningAccuracy:
        """See :class:`Meaning`."""
        names, angles = worst_of({name: pairs.result() for name, pairs in self._pairs.items()})
        read_as = "vectors that are compared by their angle"
        return MeaningAccuracy(EMBEDDINGS, names, read_as, angles.vectors, angles.lost, None, angles=angles)

    def anew(self) -> EmbeddingMeaning:
        """See :class:`Meaning`."""
        return EmbeddingMeaning(self.outputs)


def choice_beside(meaning: Meaning | None, choice: ClassChoice | None) -> ClassChoice:
    """Returns what is known of the output that tells the class, without embeddings, which are no scores."""
    embeddings = meaning.outputs if isinstance(meaning, EmbeddingMeaning) else ()
    return replace(choice or ClassChoice(), embeddings=frozenset(embeddings))


def meaning_of(
    answers: Sequence[Arrays],
    inputs: Sequence[ValueSpec],
    classes: int | None = None,
    declared: DeclaredOutputs | None = None,
    graph: ir.Graph | None = None,
    names: Sequence[str] = (),
) -> Meaning | None:
    """Returns what a model's outputs mean, or None if that is not known.

    Args:
        answers: The original's outputs on a few samples.
        inputs: The model's inputs.
        classes: How many classes the model has; None if unknown.
        declared: What the user says of the outputs.
        graph: The model's graph, which shows embeddings; None if it is not at hand.
        names: The names of the classes, which show the blank of a text; empty if unknown.

    Raises:
        InputError: The user names outputs that are not read as boxes, or that are no embeddings.
    """
    if declared is not None and declared.embeddings:
        return _declared_embeddings(answers, declared.embeddings)
    boxes = _boxes(answers, inputs, classes, declared)
    text = boxes or text_among(answers, inputs, names)
    found = text or _anchors(answers, inputs, declared) or peaks_among(answers, graph)
    return found or embeddings_among(answers, classes, declared, graph)


def as_shown(inputs: Sequence[ValueSpec], shown: Sequence[Mapping[str, np.ndarray]]) -> tuple[ValueSpec, ...]:
    """Returns the inputs, each with the shape that it has in all samples, or unchanged if samples differ in it.

    The file may leave sizes open.

    Args:
        inputs: The model's inputs.
        shown: The inputs of samples, by name.
    """
    shapes = {spec.name: {feeds[spec.name].shape for feeds in shown if spec.name in feeds} for spec in inputs}
    return tuple(
        replace(spec, shape=next(iter(shapes[spec.name]))) if len(shapes[spec.name]) == 1 else spec for spec in inputs
    )


def text_among(answers: Sequence[Arrays], inputs: Sequence[ValueSpec], names: Sequence[str] = ()) -> TextMeaning | None:
    """Returns how a model's text is compared, or None if no output looks like a recognizer's.

    Args:
        answers: The original's outputs on a few samples.
        inputs: The model's inputs.
        names: The names of the classes; empty if unknown.
    """
    recognizer = ctc.recognised(answers, inputs, names) if _are_finite(answers) else None
    return None if recognizer is None else TextMeaning(recognizer)


def embeddings_among(
    answers: Sequence[Arrays],
    classes: int | None,
    declared: DeclaredOutputs | None,
    graph: ir.Graph | None,
) -> EmbeddingMeaning | None:
    """Returns how a model's embeddings are compared, or None if no output is known to be one.

    Args:
        answers: The original's outputs on a few samples.
        classes: How many classes the model has; None unless it is known to be a classifier.
        declared: What the user says of the outputs.
        graph: The model's graph.

    Raises:
        InputError: The user names outputs that are no embeddings.
    """
    if declared is not None and declared.embeddings:
        return _declared_embeddings(answers, declared.embeddings)
    if graph is None or classes is not None or (declared is not None and declared.embeddings is not None):
        return None
    names = embeddings_of(graph, answers)
    finite = all(np.isfinite(answer[name]).all() for answer in answers for name in names)
    return EmbeddingMeaning(names) if names and finite else None


def _declared_embeddings(answers: Sequence[Arrays], names: Sequence[str]) -> EmbeddingMeaning:
    for name in names:
        for answer in answers:
            array = answer[name]
            if array.dtype.kind != "f" or array.ndim < 1 or rows_of(array).shape[1] < FEWEST_NUMBERS:
                raise InputError(
                    "the output is not an embedding",
                    subject="[outputs] embeddings",
                    expected=f"floats, {FEWEST_NUMBERS} or more along the last axis",
                    found=f"{name}: {array.dtype}, {'×'.join(map(str, array.shape))}",
                    hint="embeddings = false judges outputs as numbers",
                )
    return EmbeddingMeaning(names)


def _are_finite(answers: Sequence[Arrays]) -> bool:
    floats = [array for answer in answers for array in answer.values() if array.dtype.kind == "f"]
    return all(np.isfinite(array).all() for array in floats)


def _are_alike(answers: Sequence[Arrays]) -> bool:
    """Whether all samples have finite numbers, and outputs of the same shapes."""
    shapes = [{name: array.shape for name, array in answer.items()} for answer in answers]
    return all(each == shapes[0] for each in shapes) and _are_finite(answers)


def _anchors(
    answers: Sequence[Arrays], inputs: Sequence[ValueSpec], declared: DeclaredOutputs | None
) -> AnchorMeaning | None:
    if (declared is not None and declared.boxes is not None) or not _are_alike(answers):
        return None
    reading = anchors_among(answers, inputs)
    return None if reading is None else AnchorMeaning(reading)


def _boxes(
    answers: Sequence[Arrays],
    inputs: Sequence[ValueSpec],
    classes: int | None,
    declared: DeclaredOutputs | None,
) -> BoxMeaning | None:
    if not _are_alike(answers):
        return None
    detector = detectors.recognised(answers, inputs, classes, declared or detectors.UNDECLARED)
    if detector is not None:
        return BoxMeaning(detector, classes)
    if declared is not None and declared.boxes:
        raise _unread(answers, declared.boxes)
    return None


def _unread(answers: Sequence[Arrays], boxes: Sequence[str]) -> InputError:
    found = (f"{name}: {'×'.join(map(str, answers[0][name].shape))}" for name in boxes) if answers else ("no samples",)
    return InputError(
        "boxes are not read from these outputs",
        subject="[outputs] boxes",
        expected=f"a row or a column a box, with four coordinates and scores, one of {DOUBTFUL} or more on the samples",
        found=", ".join(found),
        hint="name all outputs that tell of boxes, and no others; boxes = false judges outputs as numbers",
    )
