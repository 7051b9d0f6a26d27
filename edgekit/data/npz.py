"""Samples in ``.npz`` files, one a file, with an array for each of the model's inputs."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import BinaryIO, cast

import numpy as np

from edgekit.data.axes import rearranged
from edgekit.data.labels import require_class_number
from edgekit.data.npy import HEADER_LOCK, in_native_order, read_header
from edgekit.errors import InputError
from edgekit.features.dimensions import OpenDims, written
from edgekit.files.regular_file import SAMPLE_BYTES, open_regular
from edgekit.graph.sizes.contradictions import Contradiction, contradiction
from edgekit.model import ValueSpec

LABEL_ARRAY = "label"
"""Name of the array that holds a sample's label, unless an input of the model has that name."""

_CALLED_LABELS = {"y", "target", "targets", "labels", "class", "y_true", "label"}
"""Names that people give an array of labels, in lower case."""

OUTPUT_PREFIX = "output:"
"""Prefix of the names of arrays that hold the outputs to expect, as the model's framework computed them."""


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays of any names to a ``.npz`` file; :func:`numpy.savez` mistakes some for its own arguments.

    Raises:
        ValueError: An array holds Python objects.
    """
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def hold_labels(
    files: Sequence[Path], inputs: Sequence[ValueSpec], open_dims: OpenDims, left_out: Collection[str] = ()
) -> bool:
    """Whether every file holds a label. The headers of all files are checked against the model; no data is read.

    Args:
        files: The samples.
        inputs: What the model wants to be fed.
        open_dims: The sizes that dimensions of the inputs may take.
        left_out: Names of further arrays that are allowed: inputs of the original model that this one no longer has.

    Raises:
        InputError: A file is damaged or does not fit the model, or only some of them hold a label.
    """
    headers = [_checked_headers(file, inputs, open_dims, left_out) for file in files]
    recorded = [{name for name in names if name.startswith(OUTPUT_PREFIX)} for names in headers]
    other = next((at for at, names in enumerate(recorded) if names != recorded[0]), None)
    if other is not None:
        raise InputError(
            "the samples hold different outputs",
            subject=files[other],
            expected=f"{', '.join(sorted(recorded[0])) or 'no recorded output'}, as in {files[0].name}",
            found=", ".join(sorted(recorded[other])) or "no recorded output",
        )
    with_label = [LABEL_ARRAY in names for names in headers]
    if any(spec.name == LABEL_ARRAY for spec in inputs) or not any(with_label):
        return False
    if not all(with_label):
        raise InputError(
            "only some of the samples have a label",
            subject=files[with_label.index(False)],
            expected=f"an array {LABEL_ARRAY!r}, as in {files[with_label.index(True)].name}",
            found="none",
        )
    return True


def read_npz(file: Path, nan_inputs: Collection[str] = ()) -> dict[str, np.ndarray]:
    """All arrays of a file.

    Args:
        file: The sample.
        nan_inputs: The inputs that may hold NaN; recorded outputs always may.

    Raises:
        InputError: The file is damaged, or an array holds NaN that must not.
    """
    with (
        _damage_named(file),
        open_regular(file, SAMPLE_BYTES) as stream,
        HEADER_LOCK,
        np.load(stream, allow_pickle=False) as arrays,
    ):
        feeds = {name: in_native_order(arrays[name]) for name in arrays.files}
    for name, array in feeds.items():
        if name in nan_inputs or name.startswith(OUTPUT_PREFIX):
            continue
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise InputError(
                "the sample holds NaN",
                subject=file,
                expected=f"numbers in array {name!r}",
                found=f"{np.count_nonzero(np.isnan(array))} of {array.size} values are NaN",
                hint=_nan_hint(nan_inputs),
            )
    return feeds


def read_headers(file: Path) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and element type of every array in a ``.npz`` file; no data is read.

    Raises:
        InputError: The file is damaged.
    """
    with _damage_named(file):
        return _headers(file)


def _checked_headers(
    file: Path, inputs: Sequence[ValueSpec], open_dims: OpenDims, left_out: Collection[str]
) -> set[str]:
    """Returns the names of the arrays in a ``.npz`` file once it is checked that their headers fit the model."""
    headers = read_headers(file)
    if LABEL_ARRAY in headers and all(spec.name != LABEL_ARRAY for spec in inputs):
        require_class_number(*headers[LABEL_ARRAY], file)
    _check_names(file, headers.keys(), inputs, left_out)
    for spec in inputs:
        _check_array(file, spec, *headers[spec.name])
    _check_open_dims(file, {spec: headers[spec.name][0] for spec in inputs}, open_dims)
    return set(headers)


def _check_names(file: Path, names: Collection[str], inputs: Sequence[ValueSpec], left_out: Collection[str]) -> None:
    """Refuses files that lack an input's array, or have one that is neither an input, a label nor an output."""
    wanted = {spec.name for spec in inputs}
    further = {name for name in names if name == LABEL_ARRAY or name.startswith(OUTPUT_PREFIX)}
    strange = sorted(set(names) - wanted - further - set(left_out))
    missing = [spec.name for spec in inputs if spec.name not in names]
    if not missing and not strange:
        return
    called_otherwise = [name for name in strange if name.casefold() in _CALLED_LABELS]
    if not missing and len(called_otherwise) == 1 and LABEL_ARRAY not in names:
        hint = f"if {called_otherwise[0]} is the sample's label, call the array {LABEL_ARRAY!r}; if not, leave it out"
    else:
        hint = names_hint(missing, strange) or "numpy.savez(FILE, **{INPUT: array, …}) names them"
        if not missing:
            hint += (
                "; a value that the model's file holds (an initializer) counts as an input only if every "
                "sample has an array for it"
            )
    raise InputError(
        "the sample's arrays are not named as the model's inputs",
        subject=file,
        expected=", ".join(spec.name for spec in inputs),
        found=", ".join(names) or "no array",
        hint=hint,
    )


def _check_array(file: Path, spec: ValueSpec, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Refuses an array whose element type or shape is not the input's."""
    may_be_text = spec.dtype == "str" or spec.vocabulary is not None
    if dtype.name != spec.dtype and not (dtype.kind == "U" and may_be_text):
        raise InputError(
            "the sample's element type is not the model's",
            subject=file,
            expected=str(spec),
            found=f"{spec.name}: {dtype.name}",
            hint=f"save array.astype({spec.dtype!r})"
            if dtype.kind != "O"
            else f"the array holds Python objects: save numbers, numpy.asarray(values, {spec.dtype!r})",
        )
    taken = spec.of_texts if dtype.kind == "U" else spec
    if not taken.takes_shape(shape):
        raise InputError(
            "the sample's shape is not the model's",
            subject=file,
            expected=str(taken),
            found=str(ValueSpec(spec.name, dtype.name, shape)),
            hint=_shape_hint(shape, taken),
        )


def _check_open_dims(file: Path, shapes: Mapping[ValueSpec, tuple[int, ...]], open_dims: OpenDims) -> None:
    """Refuses sizes that an open dimension does not take, and two sizes for dimensions of one name."""
    for spec, shape in shapes.items():
        for dim, size in zip(spec.shape or (), shape, strict=False):
            if isinstance(dim, str) and dim in open_dims and size not in open_dims[dim]:
                raise InputError(
                    f"the sample has a size that dimension {dim!r} does not take",
                    subject=file,
                    expected=written(open_dims[dim]),
                    found=f"{size} in input {spec.name!r}",
                    hint="ask for more sizes with --dim, or keep such samples elsewhere",
                )
    found = contradiction(list(shapes), {spec.name: shape for spec, shape in shapes.items()}, open_dims)
    if found is not None:
        raise two_sizes(
            found,
            file,
            "if the model takes such samples, its file gives one name to two dimensions: export it with a name for "
            "each, or fix both with --shape",
        )


def two_sizes(found: Contradiction, sample: object, hint: str) -> InputError:
    """The error for a sample that has two sizes for one dimension."""
    return InputError(
        f"the sample has two sizes for dimension {found.dimension!r}",
        subject=sample,
        expected=found.expected,
        found=found.size,
        hint=hint,
    )


def names_hint(missing: Sequence[str], strange: Sequence[str]) -> str | None:
    """A hint for arrays that are not named as the inputs; None if both are there, since arrays may be misnamed inputs.

    Args:
        missing: Inputs without an array.
        strange: Arrays that belong to no input.
    """
    if missing and strange:
        return None
    return f"add {', '.join(missing)}" if missing else f"leave out {', '.join(strange)}: the model has no such input"


def _headers(file: Path) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and element type of every array in a ``.npz`` file; no data is read."""
    headers = {}
    with open_regular(file, SAMPLE_BYTES) as content, zipfile.ZipFile(content) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > SAMPLE_BYTES:
            raise ValueError(f"it holds more than {SAMPLE_BYTES} bytes")
        for member in members:
            with archive.open(member) as stream:
                headers[member.filename.removesuffix(".npy")] = read_header(cast(BinaryIO, stream), member.file_size)
    if len(headers) < len(members):
        raise ValueError("two arrays have the same name")
    return headers


@contextmanager
def _damage_named(file: Path) -> Iterator[None]:
    """Turns every exception that a damaged file causes into an error that names the file."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # zipfile and NumPy raise a dozen kinds, which differ from version to version
        raise InputError(
            f"the sample cannot be read: {error}",
            subject=file,
            expected="a .npz file as numpy.savez writes it, without Python objects",
        ) from error


def _nan_hint(nan_inputs: Collection[str]) -> str:
    if nan_inputs:
        named = ", ".join(map(repr, sorted(nan_inputs)))
        return f"only {named} may hold NaN: leave the sample out, or mend what wrote it"
    return (
        "leave the sample out, or mend what wrote it; an input may hold NaN where a tree ensemble, an Imputer or IsNaN "
        "takes it for a missing value"
    )


def _shape_hint(shape: tuple[int, ...], spec: ValueSpec) -> str | None:
    if 0 in shape:
        return "the array is empty: leave the sample out, or mend what wrote it"
    if spec.shape is not None and len(shape) + 1 == len(spec.shape) and spec.takes_shape((1, *shape)):
        return "the batch dimension is missing: save array[numpy.newaxis]"
    if spec.shape is not None and (expression := rearranged(shape, spec.shape)) is not None:
        return f"the model takes the axes in another order: save {expression}"
    if spec.shape is not None and len(shape) == len(spec.shape):
        sizes = ",".join(map(str, shape))
        if shape and shape[0] > 1 and spec.takes_shape((1, *shape[1:])):
            return (
                f"if these are {shape[0]} samples, give the file itself in place of its folder; if they are one, "
                f"fix the model to this shape with --shape {quote(spec.name)}={sizes}"
            )
        return f"fix the model to this shape with --shape {quote(spec.name)}={sizes}, or prepare the data anew"
    return None
