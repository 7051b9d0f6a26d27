"""Runs a bundle in this process, with its preprocessing of files and its names of classes."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, SupportsIndex, TypeAlias, TypeGuard

import numpy as np

from edgekit.bundle import Bundle, check_integrity
from edgekit.comparison.boxes.detectors import picture_among, size_of
from edgekit.comparison.boxes.matching import CONFIDENT, SAME_OBJECT
from edgekit.comparison.boxes.reading import Detector, detector_of
from edgekit.comparison.decisions.label_accuracy import class_index, class_output
from edgekit.data.given_values import fitting_array
from edgekit.data.inputs import random_numbers
from edgekit.data.npz import LABEL_ARRAY, OUTPUT_PREFIX, names_hint, read_npz
from edgekit.data.table_samples import feeds_of
from edgekit.data.tables import is_frame, read_table, table_of
from edgekit.detections import Detection, detections
from edgekit.devices.local import open_runner
from edgekit.errors import EdgeKitError, InputError
from edgekit.execution.recurrence import restart
from edgekit.features.class_scores import probabilities_as_recorded
from edgekit.features.dimensions import defaults, how_to_take, shape_text, written
from edgekit.files.encoded import Encoded, encoded, is_content, is_picture
from edgekit.graph.sizes.contradictions import contradiction
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.model import Arrays, ValueSpec
from edgekit.preprocessing import Decoder, ImageDecoder, only_input, parse_preprocessing
from edgekit.preprocessing.placement import Placement
from edgekit.registry import canonical_of

if TYPE_CHECKING:
    from PIL.Image import Image

_SEED_BITS = 64
_LONGEST_TEXT = 500
"""Characters of a runtime's own text that an error shows."""

Sample: TypeAlias = "str | Path | bytes | BinaryIO | Image | np.ndarray | Sequence[Any] | Mapping[str, Any]"
"""A picture, WAV or ``.npz`` file; the content of a picture or WAV file, as bytes or as a file open for reading; a
Pillow image; the only input's array; or arrays by input name."""


@dataclass(frozen=True)
class Prediction:
    """A class that a model predicts."""

    label: str
    """The class's name; without names its number, as the model gives it."""
    index: int
    """Its number, from 0."""
    score: float | None
    """The model's own score for the class, of the kind that the manifest's ``classes`` states; None if the model gives
    only the class, or if its scores rank another class first, as distances do."""
    probability: float | None = None
    """From 0 to 1: the softmax of logits, else the score itself; None if the model gives only the class, or if the
    bundle does not say what its scores are. Those of independent classes do not add up to 1."""


class LoadedBundle:
    """A bundle that is ready to run on this machine.

    The device's own runtime executes it if that runs on this machine, else a stand-in; :attr:`executed_by` tells which.

    Args:
        bundle: The bundle.

    Raises:
        InputError: The target that built the bundle is not installed.
        RequirementError: The bundle's files are changed.
    """

    def __init__(self, bundle: Bundle) -> None:
        check_integrity(bundle, canonical_of(bundle.profile_name))
        self._bundle = bundle
        self._runner = open_runner(bundle)

    def __repr__(self) -> str:
        """The bundle's name, profile and path, and the model's inputs and outputs."""
        takes, gives = (
            ", ".join(f"{spec.name}: {spec.dtype} {shape_text(spec.shape)}" for spec in specs)
            for specs in (self.inputs, self.outputs)
        )
        bundle = self._bundle
        return f"<LoadedBundle {bundle.name!r} for {bundle.profile_name} at {bundle.path}: {takes} -> {gives}>"

    @property
    def bundle(self) -> Bundle:
        """The bundle that was loaded."""
        return self._bundle

    @property
    def executed_by(self) -> str:
        """What really executes: runtime, version, device and precision."""
        return self._runner.executed_by

    @cached_property
    def inputs(self) -> tuple[ValueSpec, ...]:
        """Names, element types and shapes of the inputs."""
        return tuple(one.spec for one in self._bundle.inputs)

    @cached_property
    def outputs(self) -> tuple[ValueSpec, ...]:
        """Names, element types and shapes of the outputs."""
        return tuple(one.spec for one in self._bundle.outputs)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes by index; empty where the bundle knows none."""
        return tuple(self._bundle.manifest["labels"] or ())

    def __call__(self, sample: Sample) -> list[Prediction] | Arrays:
        """Runs a sample.

        Args:
            sample: A picture, WAV or ``.npz`` file; the content of a picture or WAV file, as bytes or as a file open
                for reading; a Pillow image; the only input's array; or arrays by input name.

        Returns:
            For a picture or a sound, where the bundle names its classes: the classes as :meth:`classify` gives them.
            Else the outputs by name.

        Raises:
            InputError: The sample does not fit the bundle.
        """
        if self.labels and (is_content(sample) or is_picture(sample) or _is_media_file(sample)):
            outputs = self.run(sample)
            return self._ranked(outputs) or outputs
        return self.run(sample)

    def classify(self, sample: Sample, top: int | None = None) -> list[Prediction]:
        """The classes of a sample, the most likely first.

        A model's own label, an integer output such as ``label``, is its decision: if the model's scores rank another
        class first, only the decision is returned, without a score.

        Args:
            sample: As for calling the bundle.
            top: How many classes to return at most; None for all of them.

        Raises:
            InputError: The sample does not fit the bundle, no output of the model tells a class, or ``top`` is no
                number of classes.
        """
        if top is not None and (not isinstance(top, SupportsIndex) or isinstance(top, bool) or top.__index__() < 0):
            raise InputError(
                "is not a number of classes", subject="top", expected="a whole number, or None", found=repr(top)
            )
        outputs = self.run(sample)
        ranked = self._ranked(outputs)
        if not ranked:
            raise InputError(
                "no output of the model tells a class",
                subject=self._bundle.path,
                expected=f"{len(self.labels)} scores, or a class number" if self.labels else "one score a class",
                found="; ".join(f"{name}: {array.dtype} {array.shape}" for name, array in outputs.items()),
            )
        return ranked[:top]

    def detect(self, sample: Sample, score: float = CONFIDENT, iou: float = SAME_OBJECT) -> list[Detection]:
        """The objects that a detector finds, the largest score first.

        Args:
            sample: As for calling the bundle. Boxes of a picture are in its pixels, upright; those of arrays in the
                pixels of the model's input.
            score: The least score of a detection, from 0 to 1.
            iou: Of boxes of a class that overlap by more (intersection over union), the one with the largest score is
                kept; a model that suppresses its boxes itself uses its own threshold.

        Raises:
            InputError: The sample does not fit the bundle, the bundle does not say how its outputs are read as boxes,
                or which coordinate comes first, or a number is no share.
        """
        for name, share in (("score", score), ("iou", iou)):
            if not isinstance(share, Real) or not 0 <= share <= 1:
                raise InputError("is not a share", subject=name, expected="a number from 0 to 1", found=repr(share))
        detector, placement = self._detector, None
        source = encoded(sample) if is_content(sample) else Path(sample) if _is_media_file(sample) else sample
        if isinstance(source, Path | Encoded) or is_picture(source):
            picture = self._upright(source)
            decoder = self._of_pictures(self._decoder("a picture"), "a picture")
            placement = Placement.of(decoder.preprocessing, picture.width, picture.height)
            sample = picture
        spec = picture_among(at_sizes(self.inputs, defaults(self._bundle.open_dims)))
        size = (1, 1) if spec is None else size_of(spec)
        return detections(self.run(sample), detector, size, placement, self.labels, float(score), float(iou))

    @property
    def _detector(self) -> Detector:
        """How outputs are read as boxes.

        Raises:
            InputError: The bundle does not say so.
        """
        record = (self._bundle.manifest["accuracy"].get("meaning") or {}).get("boxes")
        if record is None:
            raise InputError(
                "the bundle does not say how its outputs are read as boxes",
                subject=self._bundle.path,
                expected="a detector that was packaged with samples that show something",
                found="; ".join(map(str, self.outputs)),
                hint="package it with --data; [outputs] boxes in the project file names others",
            )
        if record.get("order", "xy") is None:
            raise InputError(
                "nothing tells whether x or y comes first in the boxes",
                subject=self._bundle.path,
                hint='[outputs] order = "xy" or "yx" in the project file says so',
            )
        return detector_of(record)

    def run(self, sample: Sample) -> Arrays:
        """The outputs by name, of the ONNX model's shapes and element types.

        Args:
            sample: As for calling the bundle.

        Raises:
            InputError: The sample does not fit the bundle.
        """
        if is_frame(sample):
            return self.predict(sample)
        feeds = self.prepare(sample)
        try:
            return self._runner.run(feeds)
        except MemoryError:
            raise
        except Exception as error:  # sizes that do not fit each other make each runtime raise another exception
            self._require_one_size(feeds, None, error)
            if isinstance(error, EdgeKitError):
                raise
            raise InputError(
                "the model cannot be executed on these inputs",
                subject=self._bundle.path,
                expected=", ".join(map(str, self.inputs)),
                found=f"{type(error).__name__}: {' '.join(str(error).split())[:_LONGEST_TEXT]}",
            ) from error

    def predict(self, table: Any) -> Arrays:
        """The outputs of many samples by name, the rows of a table; the first axis counts them.

        Columns are assigned to inputs as those of a table in ``--data`` are. Rows are run one after the other, so that
        a bundle for one sample at a time takes them, too.

        Args:
            table: A DataFrame, a mapping of arrays by the inputs' names or an array, whose first axis counts samples;
                or the path of a file that holds a table. Columns that no input takes are not used, nor is the column
                of labels that the bundle was packaged with.

        Raises:
            InputError: A column is missing, or a cell does not fit; row and column are named.
        """
        rows = read_table(Path(table)) if isinstance(table, str | Path) else table_of(table, type(table).__name__)
        if rows is None:
            raise InputError(
                "is not a table",
                subject=self._bundle.path,
                expected="a DataFrame, a mapping of arrays, an array, or the path of a table",
                found=type(table).__name__,
            )
        feeds = feeds_of(rows, self._bundle.takes, self._bundle.manifest["options"].get("label"))
        found = [self.run({name: array[row : row + 1] for name, array in feeds.items()}) for row in range(len(rows))]
        return {spec.name: _in_rows([outputs[spec.name] for outputs in found]) for spec in self.outputs}

    def prepare(self, sample: Sample) -> Arrays:
        """Turns a sample into inputs by name, with the bundle's preprocessing for pictures and sounds.

        Inputs of random numbers that the sample lacks are drawn anew. Inputs of the numbers of words also accept the
        words themselves, or the texts that contain them.

        Args:
            sample: As for calling the bundle.

        Raises:
            InputError: The sample does not fit the bundle, or the bundle does not say how a file becomes its input.
        """
        if isinstance(sample, str | Path):
            feeds = self._read(Path(sample))
        elif is_picture(sample):
            feeds = self._decoded(sample)
        elif is_content(sample):
            feeds = self._decoded(encoded(sample))
        elif isinstance(sample, Mapping):
            feeds = dict(sample)
        else:
            spec = only_input(self._asked, "an array without a name")
            self._require_no_pixels(sample, spec)
            feeds = {spec.name: sample}
        drawn = [spec for spec in self.inputs if spec.drawn is not None and spec.name not in feeds]
        if feeds.keys() != {spec.name for spec in self.inputs} - {spec.name for spec in drawn}:
            wanted = [spec.name for spec in self.inputs if spec.name in feeds or spec not in drawn]
            raise InputError(
                "the arrays are not named as the model's inputs",
                subject=self._bundle.path,
                expected=", ".join(spec.name for spec in self.inputs),
                found=", ".join(map(str, feeds)) or "no array",
                hint=names_hint([name for name in wanted if name not in feeds], [*map(str, feeds.keys() - {*wanted})]),
            )
        arrays = {spec.name: fitting_array(feeds[spec.name], spec) for spec in self.inputs if spec not in drawn}
        arrays |= random_numbers(drawn, self._asked, arrays, secrets.randbits(_SEED_BITS))
        self._require_sizes(arrays)
        self._require_rows(arrays)
        return arrays

    def __reduce__(self) -> NoReturn:
        """Refuses to be pickled.

        Raises:
            TypeError: A model that runs stays in its process.
        """
        raise TypeError("a LoadedBundle runs in its process: give others its `bundle`, and have them load that")

    def restart(self) -> None:
        """Sets the states that the model keeps from run to run to zero; does nothing if it keeps none."""
        restart(self._runner)

    def _read(self, file: Path) -> dict[str, Any]:
        if file.suffix.casefold() == ".npz":
            arrays: dict[str, Any] = read_npz(file, self._bundle.nan_inputs)
            taken = {spec.name for spec in self.inputs}
            beside = {LABEL_ARRAY, *self._bundle.unused_inputs} - taken
            return {
                name: array
                for name, array in arrays.items()
                if name not in beside and not (name.startswith(OUTPUT_PREFIX) and name not in taken)
            }
        return self._decoded(file)

    def _decoded(self, source: Path | Encoded | Image) -> dict[str, Any]:
        """The only input, made of a picture or a sound."""
        is_file = isinstance(source, Path)
        what = str(source) if isinstance(source, Path | Encoded) else f"a picture of {source.width}×{source.height}"
        decoder = self._decoder(f"the file {source}" if is_file else what)
        name = only_input(self._asked, "a file").name
        if isinstance(source, Path | Encoded):
            return {name: decoder(source)}
        return {name: self._of_pictures(decoder, what).from_picture(source)}

    def _upright(self, source: Path | Encoded | Image) -> Image:
        """A picture of any form, turned as its EXIF data says."""
        what = "a picture" if is_picture(source) else str(source)
        decoder = self._of_pictures(self._decoder(what), what)
        return decoder.upright(source) if isinstance(source, Path | Encoded) else decoder.upright_picture(source)

    def _of_pictures(self, decoder: Decoder, found: str) -> ImageDecoder:
        if not isinstance(decoder, ImageDecoder):
            raise InputError("the bundle takes sounds", subject=self._bundle.path, expected="a WAV file", found=found)
        return decoder

    def _decoder(self, what: str) -> Decoder:
        """The decoder that makes the only input from a picture or a sound.

        Args:
            what: What is to be decoded, for errors.
        """
        declared = self._bundle.manifest["preprocessing"]
        if declared is None:
            raise InputError(
                "the bundle does not say how a file becomes its input",
                subject=self._bundle.path,
                expected="[preprocessing] when it was packaged",
                found=f"none, and {what}",
                hint=self._how_to_give_texts() or "declare it in edgekit.toml and package again, or give the arrays",
            )
        spec = only_input(at_sizes(self._asked, defaults(self._bundle.open_dims)), "a file")
        return parse_preprocessing(declared, self._bundle.path).decoder(spec)

    def _how_to_give_texts(self) -> str | None:
        """A hint how to give a text, which alone counts as a file's name; None if no input takes texts or tokens."""
        asked = [spec.name for spec in self._asked if spec.dtype == "str" or spec.vocabulary is not None]
        if asked:
            return f"texts are given by the input's name: {{{asked[0]!r}: ['…']}}"
        ids = [feature.name for feature in self._bundle.inputs if feature.rows is not None]
        return f"a text is given as the numbers of its tokens: {{{ids[0]!r}: [[…]], …}}" if ids else None

    @property
    def _asked(self) -> tuple[ValueSpec, ...]:
        """The inputs without those that take random numbers."""
        return tuple(spec for spec in self.inputs if spec.drawn is None)

    def _require_no_pixels(self, sample: object, spec: ValueSpec) -> None:
        """Refuses the raw pixels of a picture if the model takes preprocessed values."""
        declared = self._bundle.manifest["preprocessing"] or {}
        if not isinstance(sample, np.ndarray) or sample.dtype != np.uint8 or declared.get("kind") != "image":
            return
        if spec.dtype != "uint8" and (sample.ndim == 2 or (sample.ndim == 3 and sample.shape[2] in (1, 3, 4))):
            raise InputError(
                "the array looks like the pixels of a picture, which the preprocessing turns into the input",
                subject=f"input {spec.name!r}",
                expected=f"{spec}, or a picture",
                found=str(ValueSpec(spec.name, sample.dtype.name, sample.shape)),
                hint=(
                    "give PIL.Image.fromarray(array), or for an array from OpenCV PIL.Image.fromarray(array[..., ::-1])"
                ),
            )

    def _require_sizes(self, arrays: Arrays) -> None:
        """Refuses sizes that an open dimension does not take, and two different sizes for one open dimension."""
        for spec in self.inputs:
            for dim, size in zip(spec.shape or (), arrays[spec.name].shape, strict=True):
                if isinstance(dim, str) and size not in self._bundle.open_dims.get(dim, (size,)):
                    raise InputError(
                        f"dimension {dim!r} does not take that size",
                        subject=f"input {spec.name!r}",
                        expected=written(self._bundle.open_dims[dim]),
                        found=size,
                        hint=how_to_take(dim, self._bundle.open_dims[dim], size),
                    )
        self._require_one_size(arrays, self._bundle.open_dims)

    def _require_rows(self, arrays: Arrays) -> None:
        """Refuses row numbers, such as token ids, that the model's table lacks: a runtime may compute anything then."""
        for feature in self._bundle.inputs:
            array = arrays[feature.name]
            if feature.rows is None or array.dtype.kind not in "iu" or not array.size:
                continue
            beyond = array[(array >= feature.rows) | (array < -feature.rows)]
            if beyond.size:
                raise InputError(
                    "the model's table has no row for this number",
                    subject=f"input {feature.name!r}",
                    expected=f"numbers from 0 to {feature.rows - 1}",
                    found=int(beyond[0]),
                )

    def _require_one_size(self, arrays: Arrays, dims: Collection[str] | None, cause: Exception | None = None) -> None:
        """Refuses two sizes for one dimension.

        Dimensions without declared sizes are checked only after a run has failed: if the file gives two dimensions the
        same name, the model may accept two sizes.
        """
        found = contradiction(self.inputs, {name: array.shape for name, array in arrays.items()}, dims)
        if found is not None:
            raise InputError(
                f"there are two sizes for dimension {found.dimension!r}",
                subject=f"input {found.input!r}",
                expected=found.expected,
                found=found.size,
            ) from cause

    def _ranked(self, outputs: Arrays) -> list[Prediction]:
        """The classes, the most likely first; empty if no output gives a class.

        Scores that rank another class first than the model's own label are ignored.
        """
        by_name, choice = {one.name: outputs[one.name] for one in self._bundle.outputs}, self._bundle.class_choice
        name = class_output(by_name, replace(choice, answers=frozenset(), listed=frozenset()))
        if name is None:
            return []
        scores, decision = _scores(outputs[name]), None
        if scores.dtype.kind != "f":
            number = int(scores[0])
            decision = self._prediction(number, class_index(number, choice.numbers.get(name, ())))
            beside = class_output({other: array for other, array in by_name.items() if other != name})
            name, scores = beside or name, np.empty(0) if beside is None else _scores(outputs[beside])
        if scores.dtype.kind != "f" or not len(scores) or (self.labels and len(scores) != len(self.labels)):
            return [] if decision is None else [decision]
        order = np.argsort(-scores, kind="stable")
        if decision is not None and order[0] != decision.index:
            return [decision]
        likely = probabilities_as_recorded(outputs[name].ravel(), self._bundle.manifest.get("classes"))
        own = next((each for each in choice.numbers.values() if len(each) == len(scores)), range(len(scores)))
        return [
            self._prediction(
                own[index], int(index), float(scores[index]), None if likely is None else float(likely[index])
            )
            for index in order
        ]

    def _prediction(
        self, number: int, index: int, score: float | None = None, probability: float | None = None
    ) -> Prediction:
        named = 0 <= index < len(self.labels)
        name = self.labels[index] if named else str(number)
        return Prediction(name, number if index < 0 else index, score, probability)


def _scores(output: np.ndarray) -> np.ndarray:
    """An output as a vector; several 8-bit integers are scores that were quantized, and become floats."""
    is_quantized = output.size > 1 and output.dtype in (np.int8, np.uint8)
    return (output.astype(np.float32) if is_quantized else output).ravel()


def _is_media_file(sample: object) -> TypeGuard[str | Path]:
    return isinstance(sample, str | Path) and Path(sample).suffix.casefold() != ".npz"


def _in_rows(outputs: Sequence[np.ndarray]) -> np.ndarray:
    """The outputs of single samples as one array whose first axis counts the samples."""
    return np.concatenate(outputs) if all(array.shape[:1] == (1,) for array in outputs) else np.stack(outputs)
