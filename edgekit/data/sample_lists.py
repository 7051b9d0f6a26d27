"""Samples one by one: objects of Python or lines of JSON, each with the arrays of one sample by the inputs' names.

Unlike the rows of a table they may differ in their sizes, as texts do. A ``.jsonl`` file has an object a line:
``{"input_ids": [101, 7592, 102], "attention_mask": [1, 1, 1]}``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.data.given_values import fitting_array
from edgekit.data.npz import LABEL_ARRAY, write_npz
from edgekit.data.origins import named_by_origin
from edgekit.data.tables import LINES_SUFFIX, MOST_ROWS
from edgekit.errors import InputError
from edgekit.files.atomic import temporary_folder
from edgekit.files.lines import lines_of
from edgekit.files.regular_file import DOCUMENT_BYTES, read_text
from edgekit.model import ValueSpec

_DIGITS = len(str(MOST_ROWS))


@dataclass(frozen=True)
class SampleList:
    """Samples that are read once, in their order."""

    name: str
    """What errors call the samples."""
    columns: tuple[str, ...]
    """The names of the arrays in the first sample."""
    samples: Iterator[tuple[str, Any]]
    """For each sample what errors call it, and the sample."""


def is_line_file(path: Path) -> bool:
    """Whether the path is a file with a sample a line."""
    return path.suffix.casefold() == LINES_SUFFIX and path.is_file()


def read_lines(file: Path) -> SampleList:
    """The samples that a file of JSON lines holds; empty lines are skipped.

    Raises:
        InputError: The file holds no samples, or its first sample is not JSON; later lines raise when they are read.
    """

    def lines() -> Iterator[tuple[str, Any]]:
        for number, line in enumerate(lines_of(read_text(file, "utf-8-sig", DOCUMENT_BYTES)), 1):
            where = f"{file}:{number}"
            if line.strip():
                try:
                    yield where, json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise InputError(
                        f"the line cannot be read: {error}", subject=where, expected="an object of JSON"
                    ) from error

    return _begun(str(file), lines())


def list_of(given: object, name: str) -> SampleList | None:
    """The samples that a Python object gives one by one, or None if it is not a source of samples.

    Args:
        given: A list of mappings, something that can be iterated over once, or a function without arguments that gives
            one of these: a generator function, say.
        name: What errors call the object.

    Raises:
        InputError: The object holds no samples.
    """
    made: object = given() if callable(given) and not isinstance(given, type | Mapping) else given
    if not isinstance(made, list | Iterator) and not (isinstance(made, Iterable) and made is not given):
        return None
    samples = iter(made)
    first = next(samples, None)
    if first is not None and not isinstance(first, Mapping):
        return None
    walk = samples if first is None else chain([first], samples)
    return _begun(name, ((f"{name}, sample {number}", each) for number, each in enumerate(walk)))


@contextmanager
def list_as_folder(given: SampleList, inputs: Iterable[ValueSpec], label: str | None) -> Iterator[Path]:
    """Writes a file for each sample into a folder that lives as long as the block.

    Numbers in lists become the input's type, and a list for one sample gets the dimension that counts samples.

    Args:
        given: The samples.
        inputs: What the model takes.
        label: The name of the class in a sample; None for ``label``, if samples have that name.

    Yields:
        The folder. Errors about its files name the sample: the line of the file, or the list and the number.

    Raises:
        InputError: A sample is no mapping, or holds something that is no array; the error names the sample and what
            was expected.
    """
    specs = {spec.name: spec for spec in inputs}
    with temporary_folder() as parent:
        folder = parent / (Path(given.name).name or "samples")
        folder.mkdir()
        origins = {folder: given.name}
        for number, (where, sample) in enumerate(given.samples):
            if not isinstance(sample, Mapping):
                raise InputError(
                    "is not a sample",
                    subject=where,
                    expected="arrays by the names of the inputs",
                    found=type(sample).__name__,
                )
            if number == MOST_ROWS:
                raise InputError("there are too many samples", subject=given.name, expected=f"{MOST_ROWS} at most")
            if label not in (None, LABEL_ARRAY) and label in sample and LABEL_ARRAY in sample:
                raise InputError(
                    f"holds {LABEL_ARRAY!r} beside the label",
                    subject=where,
                    expected=f"the class in {label!r} alone",
                    found=", ".join(map(str, sample)),
                    hint=f"leave {LABEL_ARRAY!r} out, or give it another name",
                )
            called = {LABEL_ARRAY if str(name) == label else str(name): value for name, value in sample.items()}
            arrays = {name: _array(value, specs.get(name), f"{where}, {name!r}") for name, value in called.items()}
            file = folder / f"{number:0{_DIGITS}}.npz"
            write_npz(file, arrays)
            origins[file] = where
        with named_by_origin(origins):
            yield folder


def _begun(name: str, samples: Iterator[tuple[str, Any]]) -> SampleList:
    first = next(samples, None)
    if first is None:
        raise InputError(
            "holds no samples", subject=name, expected="arrays by the names of the inputs, for each sample"
        )
    columns = tuple(map(str, first[1])) if isinstance(first[1], Mapping) else ()
    return SampleList(name, columns, chain([first], samples))


def _array(value: Any, spec: ValueSpec | None, where: str) -> np.ndarray:
    """The value of one name as an array; arrays of numbers are unchanged, texts become an array of a fixed width."""
    if spec is not None and (isinstance(value, list | tuple | int | float | str) or _is_of_objects(value)):
        array = _at_place(where, lambda: fitting_array(_for_one(value, spec), spec))
        return array.astype(np.str_) if array.dtype == object else array
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:  # lists of several lengths
        raise InputError("is not an array", subject=where, expected="numbers or texts", found=str(error)) from error
    if array.dtype == object:
        raise InputError("is not an array", subject=where, expected="numbers or texts", found=type(value).__name__)
    return array


def _is_of_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


def _for_one(value: Any, spec: ValueSpec) -> Any:
    """The value in a list of one if it is a list that lacks the dimension that counts samples; else the value."""
    if isinstance(value, np.ndarray):
        return value
    try:
        shape = np.shape(value)
    except ValueError:  # lists of several lengths, for which the conversion to an array raises the error
        return value
    return [value] if not spec.takes_shape(shape) and spec.takes_shape((1, *shape)) else value


def _at_place(where: str, convert: Callable[[], np.ndarray]) -> np.ndarray:
    try:
        return convert()
    except InputError as error:
        raise InputError(
            error.message, subject=where, expected=error.expected, found=error.found, hint=error.hint
        ) from error
