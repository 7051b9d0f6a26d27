"""Sample data for calibration and checks: re-iterable, streamed, one sample at a time.

A folder of samples holds files of one kind:

- ``.npz``, one sample each, with an array for each of the model's inputs, of the input's shape and element type. If
  outputs were recorded, an array ``output:NAME`` holds each output as the framework computed it;
- pictures or ``.wav`` files for a model with a single input, which become its values as ``[preprocessing]`` in
  ``edgekit.toml`` declares. A ``uint8`` picture input needs no declaration.

Labels are optional and come in one of the ways that :mod:`edgekit.data.labels` describes. Hidden files and those that
Windows and macOS leave in folders are ignored. Files are taken in the order of their paths.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Protocol

import numpy as np

from edgekit.data import tables
from edgekit.data.inputs import random_numbers, seeded_inputs
from edgekit.data.labels import CONFIG_FILE, LABEL_FILES, check_label, find_labels, numbered_folders
from edgekit.data.limits import index_limits
from edgekit.data.natural import picture
from edgekit.data.npz import LABEL_ARRAY, OUTPUT_PREFIX, hold_labels, read_headers, read_npz
from edgekit.errors import InputError, RequestError
from edgekit.features.dimensions import OpenDims, defaults
from edgekit.features.tokens import numbers_for
from edgekit.files.left_by_systems import is_left_by_system
from edgekit.files.missing import hint_for_missing
from edgekit.files.utf8_names import require_utf8_name
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.model import Model, ValueSpec
from edgekit.processes import supervision

if TYPE_CHECKING:
    from edgekit.preprocessing import AudioPreprocessing, Decoder, ImagePreprocessing, Preprocessing


@dataclass(frozen=True)
class Sample:
    """One sample: what to feed by input name, and its label where the data has labels."""

    name: str
    feeds: dict[str, np.ndarray]
    label: int | None = None
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The outputs as the model's framework computed them, by name or position; empty if they were not recorded."""
    source: str | None = None
    """The file of the sample, as the user gave the path; None if the sample is not from a file."""

    @property
    def where(self) -> str:
        """What errors call the sample: its file, or its name."""
        return self.name if self.source is None else self.source


class Samples(Protocol):
    """Samples that can be iterated over more than once; each time reads the files again, so none stays in memory."""

    @property
    def has_labels(self) -> bool:
        """Whether every sample has a label."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Sample]: ...


PIXELS = "uint8"
"""The element type of inputs that take a picture's pixels as they are."""
_OTHER_TABLES = {".feather", ".arrow", ".xlsx", ".xls", ".ods", ".pkl", ".pickle", ".h5", ".json"}
"""Suffixes of files that hold many samples, and that nothing here reads."""
_OTHER_SOUNDS = {
    ".flac",
    ".ogg",
    ".oga",
    ".opus",
    ".mp3",
    ".m4a",
    ".aac",
    ".aif",
    ".aiff",
    ".au",
    ".sph",
    ".wma",
    ".webm",
}
"""Suffixes of sounds that nothing here decodes."""
_OTHER_PICTURES = {".heic", ".heif", ".avif", ".gif", ".dng"}
"""Suffixes of pictures that nothing here reads; phones write some of them."""

Read = Callable[[Path], dict[str, np.ndarray]]
"""Reads a file, and returns the arrays to feed to the model; a label may be among them."""


class FolderSamples:
    """The samples of a folder; see :func:`open_samples`.

    Args:
        folder: What the samples' names are relative to.
        files: The files, one for each sample.
        read: Reads a file.
        labels: The label of every file, as folders or a list give it; None if files hold labels or there are none.
        labels_inside: Whether the files hold labels themselves.
        numbered: How classes were numbered, in words, if only the order of their names tells the numbers.
        class_names: Names of the classes by index; labels in the files may be such names.
    """

    def __init__(
        self,
        folder: Path,
        files: Sequence[Path],
        read: Read,
        labels: Mapping[Path, int] | None,
        *,
        labels_inside: bool = False,
        numbered: str | None = None,
        class_names: Sequence[str] = (),
    ) -> None:
        self.numbered = numbered
        self._class_names = class_names
        self._folder = folder
        self._files = files
        self._read = read
        self._labels = labels
        self._labels_inside = labels_inside

    @property
    def has_labels(self) -> bool:
        """Whether every sample has a label."""
        return self._labels is not None or self._labels_inside

    def completed(self, complete: Callable[[Path, dict[str, np.ndarray]], dict[str, np.ndarray]]) -> FolderSamples:
        """The samples with further arrays, which ``complete`` computes from a file's name and arrays."""

        def read(file: Path) -> dict[str, np.ndarray]:
            return complete(file.relative_to(self._folder), self._read(file))

        return FolderSamples(
            self._folder,
            self._files,
            read,
            self._labels,
            labels_inside=self._labels_inside,
            numbered=self.numbered,
            class_names=self._class_names,
        )

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[Sample]:
        return self.at(range(len(self._files)))

    def at(self, places: Collection[int]) -> Iterator[Sample]:
        """The samples at some places, counted from 0, in order; no other file is read."""
        for file in (self._files[place] for place in sorted(places)):
            try:
                arrays = self._read(file)
            except InputError as error:  # a sample that one form of the model cannot be given, no other form can
                raise RequestError(
                    error.message, subject=error.subject, expected=error.expected, found=error.found, hint=error.hint
                ) from error
            feeds = {name: array for name, array in arrays.items() if not name.startswith(OUTPUT_PREFIX)}
            outputs = {name.removeprefix(OUTPUT_PREFIX): arrays[name] for name in arrays if name not in feeds}
            label = None if self._labels is None else self._labels[file]
            if self._labels_inside:
                label = check_label(feeds.pop(LABEL_ARRAY), file, self._class_names)
            yield Sample(file.relative_to(self._folder).as_posix(), feeds, label, outputs, str(file))


def samples_at(samples: Samples, places: Collection[int]) -> Iterator[Sample]:
    """The samples at some places, counted from 0, in order; in a folder no other file is read."""
    if isinstance(samples, FolderSamples):
        return samples.at(places)
    return (sample for place, sample in enumerate(samples) if place in places)


class SeededSamples:
    """Random inputs, the same on every machine, for use without data: noise and natural inputs alternate.

    Args:
        model: The model that the inputs are drawn for: its shapes are fixed, or open for known sizes.
        count: The number of samples.
        preprocessing: How samples become the only input. If it is declared for pictures, pixels are drawn.
        sizes: The sizes of the open dimensions; None for their defaults.

    Raises:
        InputError: Nothing can be drawn, because a shape is dynamic or because of an element type.
    """

    has_labels = False

    def __init__(
        self,
        model: Model,
        count: int,
        preprocessing: Preprocessing | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        from edgekit.preprocessing import ImagePreprocessing

        self._inputs = at_sizes(model.fed_inputs, defaults(model.open_dims) if sizes is None else sizes)
        self._image = preprocessing if isinstance(preprocessing, ImagePreprocessing) else None
        self._limits = index_limits(model)
        self._count = count
        seeded_inputs(self._inputs, 0, self._limits)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        for seed in range(self._count):
            yield Sample(f"seed {seed}", self._drawn(seed))

    def _drawn(self, seed: int) -> dict[str, np.ndarray]:
        if self._image is None:
            return seeded_inputs(self._inputs, seed, self._limits, natural=seed % 2 == 1)
        (spec,) = self._inputs
        decoder, rng = self._image.decoder(spec), np.random.default_rng(seed)
        shape = decoder.picture_shape
        pixels = picture(*shape, rng) if seed % 2 else rng.integers(0, 256, shape).astype(np.float64)
        return {spec.name: decoder.from_pixels(pixels)}


def open_samples(
    folder: Path,
    inputs: Sequence[ValueSpec],
    preprocessing: Preprocessing | None = None,
    class_names: Sequence[str] = (),
    open_dims: OpenDims | None = None,
    left_out: Collection[str] = (),
    nan_inputs: Collection[str] = (),
    without: Collection[Path] = (),
) -> FolderSamples:
    """The samples in ``folder`` for a model with these inputs.

    Names, shapes and element types of all ``.npz`` files are checked here, by their headers. What only the values
    show, such as NaN, is checked when a sample is read.

    Args:
        folder: See the module's description.
        inputs: What the model wants to be fed; dimensions that are not numbers fit any size.
        preprocessing: How pictures or sounds become the input.
        class_names: Names of the classes by index, so that labels may be written as names.
        open_dims: The sizes that dimensions of the inputs may take; pictures and sounds get the default ones.
        left_out: Inputs of the original model that this model no longer has; their arrays are ignored.
        nan_inputs: The inputs that may hold NaN.
        without: Files that are no samples of this model.

    Returns:
        The samples. If the files do not hold an input that takes random numbers, its numbers are drawn, the same for
        the same file. Texts become numbers for inputs that take the numbers of words.

    Raises:
        InputError: The folder is missing, empty or mixed, or a file does not fit the model.
    """
    found = sample_files(folder)
    files = [file for file in found if file not in without]
    supervision.tell_sample_bytes(_bytes_of_one(inputs, open_dims or {}))
    given, drawn = _held_and_drawn(inputs, files[0])
    if drawn:
        samples = open_samples(folder, given, preprocessing, class_names, open_dims, left_out, nan_inputs, without)
        return samples.completed(functools.partial(_with_random_numbers, given, drawn))
    kinds = sorted({_kind(file) for file in files})
    if len(kinds) > 1:
        raise InputError(
            "the data folder holds samples of several kinds",
            subject=folder,
            expected="one kind: .npz, pictures or .wav",
            found=", ".join(f"{next(f for f in files if _kind(f) == kind).relative_to(folder)}" for kind in kinds),
        )
    labels = find_labels(folder, found, class_names)
    numbered = None if labels is None else numbered_folders(folder, found, class_names)
    if kinds != ["npz"]:
        at_defaults = at_sizes(inputs, defaults(open_dims or {}))
        reader = _media_reader(kinds[0], at_defaults, preprocessing, folder)
        return FolderSamples(folder, files, reader, labels, numbered=numbered)
    labels_inside = hold_labels(files, inputs, open_dims or {}, left_out)
    if labels_inside and labels is not None:
        raise InputError(
            "the samples are labelled twice",
            subject=folder,
            expected="one way of labelling",
            found=f"arrays {LABEL_ARRAY!r}, and a list of labels or folders named as classes",
        )
    read = functools.partial(_read_without, frozenset(left_out), frozenset(nan_inputs), tuple(inputs))
    return FolderSamples(
        folder, files, read, labels, labels_inside=labels_inside, numbered=numbered, class_names=class_names
    )


def require_sample_files(folder: Path) -> None:
    """Checks the names of a folder's files, before any work starts.

    Raises:
        InputError: The folder is missing or empty, or a file is no sample.
    """
    for file in sample_files(folder):
        _kind(file)


def require_declaration(inputs: Sequence[ValueSpec], *folders: Path | None) -> None:
    """Checks, before any work starts, that pictures or sounds become a model's only input without a declaration.

    Raises:
        InputError: They do not.
    """
    for folder in folders:
        if folder is not None and len(inputs) == 1 and (kind := _kind(sample_files(folder)[0])) != "npz":
            _declared(kind, inputs[0], None, folder)


def pixels_as_they_are(inputs: Sequence[ValueSpec], *folders: Path) -> Preprocessing | None:
    """The preprocessing of pictures for an only input that holds pixels from 0 to 255, which needs no declaration.

    None if there are several inputs, the only one has another element type or no shape of a picture, or the first file
    of a folder is no picture.
    """
    from edgekit.preprocessing import ImagePreprocessing

    if (
        len(inputs) != 1
        or inputs[0].dtype != PIXELS
        or any(_kind(sample_files(each)[0]) != "image" for each in folders)
    ):
        return None
    try:
        return ImagePreprocessing(scale=1.0).resolve(inputs[0])
    except InputError:  # an input that is no picture
        return None


def _bytes_of_one(inputs: Sequence[ValueSpec], open_dims: OpenDims) -> int:
    """Bytes that a sample of the default sizes takes as float32."""
    shapes = [spec.shape or () for spec in at_sizes(inputs, defaults(open_dims))]
    return 4 * sum(math.prod(size for size in shape if isinstance(size, int)) for shape in shapes)


def require_data_folder(folder: Path) -> None:
    """Checks that the data folder exists.

    Raises:
        InputError: There is no such folder.
    """
    if not folder.is_dir():
        raise InputError(
            "the data folder is not there" if not folder.exists() else "the data is not a folder",
            subject=folder,
            expected="a folder with a file for each sample (.npz, pictures or .wav), or a table (.csv, .parquet, .npy, "
            ".npz), or a sample a line (.jsonl)",
            hint=None if folder.exists() else hint_for_missing(folder),
        )


def sample_files(folder: Path) -> list[Path]:
    """The samples' files, one level of sub-folders included.

    Raises:
        InputError: The folder is missing or empty, or files lie too deep in it.
    """
    require_data_folder(folder)
    files = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_dir() or is_left_by_system(inside.parts) or any(part.startswith(".") for part in inside.parts):
            continue
        require_utf8_name(path, inside=inside)
        if len(inside.parts) > 2:
            raise InputError(
                "samples lie too deep in the data folder", subject=path, expected="FOLDER/CLASS/FILE at most"
            )
        if len(inside.parts) > 1 or inside.name not in {*LABEL_FILES, CONFIG_FILE}:
            files.append(path)
    if not files:
        raise InputError(
            "the data folder holds no samples",
            subject=folder,
            expected=".npz files with an array for each input, or pictures or .wav files",
            found="no such file",
            hint="numpy.savez(FILE, INPUT=array) writes a sample",
        )
    return files


def _kind(file: Path) -> str:
    from edgekit.preprocessing import image, wav

    suffix = file.suffix.casefold()
    if suffix == ".npz":
        return "npz"
    if suffix in image.SUFFIXES:
        return "image"
    if suffix in wav.SUFFIXES:
        return "audio"
    raise InputError(
        "the file is not a sample",
        subject=file,
        expected=".npz, .wav or a picture (" + " ".join(sorted(image.SUFFIXES)) + ")",
        found=file.suffix or "a file without suffix",
        hint=f"it holds labels of the samples beside it: give its folder, {file.parent}, as the data"
        if file.name in LABEL_FILES
        else f"a table is given itself, a row a sample: {file} in place of its folder"
        if suffix in tables.SUFFIXES
        else "write the table as .csv or .parquet, and give that file itself in place of the folder"
        if suffix in _OTHER_TABLES
        else f"`ffmpeg -i {quote(file.name)} -c:a pcm_s16le {quote(f'{file.stem}.wav')}` writes a WAV file; give a "
        "folder of these"
        if suffix in _OTHER_SOUNDS
        else f"save pictures as .png or .jpg: {suffix} is not read"
        if suffix in _OTHER_PICTURES
        else "keep other files outside the data folder",
    )


def _config_hint(folder: Path) -> str:
    """The end of a hint: ``--config`` names a project file that is neither in the data folder nor above it."""
    here = Path.cwd()
    if (here / CONFIG_FILE).is_file() and not folder.resolve().is_relative_to(here):
        return f"; --config {CONFIG_FILE} takes the one here, which lies neither in the data folder nor above it"
    return f"; --config FILE names an {CONFIG_FILE} that lies neither in the data folder nor above it"


def _media_reader(kind: str, inputs: tuple[ValueSpec, ...], declared: Preprocessing | None, folder: Path) -> Read:
    """A function that reads pictures or sounds for the model's only input."""
    from edgekit.preprocessing import only_input

    spec = only_input(inputs, "a folder of pictures" if kind == "image" else "a folder of WAV files")
    return functools.partial(_decoded, spec.name, _declared(kind, spec, declared, folder).decoder(spec))


def _declared(
    kind: str, spec: ValueSpec, declared: Preprocessing | None, folder: Path
) -> ImagePreprocessing | AudioPreprocessing:
    """The preprocessing of pictures or sounds that the folder holds; pixels need no declaration.

    Raises:
        InputError: None is declared, or one of another kind.
    """
    from edgekit.preprocessing import AudioPreprocessing, ImagePreprocessing

    if declared is None and kind == "image" and spec.dtype == PIXELS:
        declared = ImagePreprocessing(scale=1.0)
    wanted = ImagePreprocessing if kind == "image" else AudioPreprocessing
    if not isinstance(declared, wanted):
        raise InputError(
            f"how {'a picture' if kind == 'image' else 'a sound'} becomes the model's input is not declared",
            subject=folder,
            expected=f'[preprocessing] with kind = "{kind}" in {CONFIG_FILE}',
            found="no [preprocessing]" if declared is None else "another kind",
            hint=(
                'for instance: kind = "image", scale = "1/255"'
                if kind == "image"
                else 'for instance: kind = "audio", sample_rate = 16000'
            )
            + _config_hint(folder),
        )
    return declared


def _read_without(
    left_out: Collection[str], nan_inputs: Collection[str], inputs: Sequence[ValueSpec], file: Path
) -> dict[str, np.ndarray]:
    """The arrays of a file without those in ``left_out``; texts become numbers of words if the model takes these."""
    arrays = {name: array for name, array in read_npz(file, nan_inputs).items() if name not in left_out}
    for spec in inputs:
        if spec.vocabulary is not None and spec.name in arrays:
            subject = f"{file}, array {spec.name!r}"
            arrays[spec.name] = numbers_for(arrays[spec.name], spec.vocabulary, spec.tokens, subject)
    return arrays


def _held_and_drawn(inputs: Sequence[ValueSpec], file: Path) -> tuple[list[ValueSpec], list[ValueSpec]]:
    """The inputs that samples hold, and those whose random numbers have to be drawn, as one sample shows."""
    random = {spec.name for spec in inputs if spec.drawn is not None}
    if random and file.suffix.casefold() == ".npz":
        random -= read_headers(file).keys()
    return [spec for spec in inputs if spec.name not in random], [spec for spec in inputs if spec.name in random]


def _with_random_numbers(
    given: Sequence[ValueSpec], drawn: Sequence[ValueSpec], file: Path, arrays: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The arrays of a file, and random numbers for the ``drawn`` inputs, of the sizes that the arrays have."""
    return {**arrays, **random_numbers(drawn, given, arrays, zlib.crc32(file.as_posix().encode()))}


def _decoded(name: str, decode: Decoder, file: Path) -> dict[str, np.ndarray]:
    return {name: decode(file)}
