"""The rows of a table, as the samples of a model: a folder with a ``.npz`` file a row.

If the model has several inputs, each takes the column of its name. A single input that takes several numbers a sample
takes the columns that the model's metadata name (``feature_names``), else all columns but the label, in their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from edgekit.data.labels import check_label
from edgekit.data.npz import LABEL_ARRAY, write_npz
from edgekit.data.origins import named_by_origin
from edgekit.data.stated import feature_names
from edgekit.data.table_cells import Column
from edgekit.data.tables import Cells, Table
from edgekit.errors import InputError
from edgekit.files.atomic import temporary_folder
from edgekit.model import ValueSpec
from edgekit.suggestions import near_names

_MOST_NAMES = 12
"""Most names of columns that an error lists."""
_MATRIX_RANK = 2


@dataclass(frozen=True)
class TableInputs:
    """What a model takes from tables."""

    inputs: Sequence[ValueSpec]
    nan_inputs: frozenset[str] = frozenset()
    """The inputs that may hold NaN."""
    class_names: Sequence[str] = ()
    """Names of the classes by index; labels may be written as such names."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the model's file states of itself."""


@contextmanager
def rows_as_folder(table: Table, takes: TableInputs, label: str | None, warn: Callable[[str], None]) -> Iterator[Path]:
    """Writes a sample for each row into a folder that lives as long as the block.

    Args:
        table: The rows.
        takes: What the model takes.
        label: The column that holds the class; None: ``label``, where there is such a column and no such input.
        warn: Called with a warning about columns that are not used, or about digits that are lost.

    Yields:
        The folder. Errors about its files name the row: the line of the file, or the table and the number.

    Raises:
        InputError: A column is missing or a cell does not fit; file, row, column, what was expected and what was found
            are named.
    """
    arrays, labels = _arrays(table, takes, label, warn)
    with temporary_folder() as parent:
        folder = parent / (Path(table.name).name or "table")
        folder.mkdir()
        origins = {folder: table.name}
        digits = len(str(len(table)))
        for row in range(len(table)):
            sample = {name: array[row : row + 1] for name, array in arrays.items()}
            if labels is not None:
                sample[LABEL_ARRAY] = np.array(labels[row])
            file = folder / f"{row:0{digits}}.npz"
            write_npz(file, sample)
            origins[file] = table.at(row)
        with named_by_origin(origins):
            yield folder


def feeds_of(table: Table, takes: TableInputs, label: str | None = None) -> dict[str, np.ndarray]:
    """What the rows of a table feed to a model, by the input's name; the first axis counts rows.

    Args:
        table: The rows.
        takes: What the model takes.
        label: A column that is left out, if the table has it; None: ``label``, if no input has that name and the only
            input does not need all columns.

    Raises:
        InputError: A column is missing or a cell does not fit.
    """
    inputs = [spec for spec in takes.inputs if spec.drawn is None]
    needs_all = len(inputs) == 1 and _width(inputs[0]) == len(table.columns)
    if label is None and not needs_all and all(spec.name != LABEL_ARRAY for spec in inputs):
        label = LABEL_ARRAY
    features = {name: cells for name, cells in table.columns.items() if name != label}
    return _feeds(replace(table, columns=features), inputs, takes, _ignore)[0]


def _arrays(
    table: Table, takes: TableInputs, label: str | None, warn: Callable[[str], None]
) -> tuple[dict[str, np.ndarray], list[int] | None]:
    inputs = [spec for spec in takes.inputs if spec.drawn is None]
    labels, called = _labels(table, {spec.name for spec in inputs}, takes.class_names, label)
    features = {name: cells for name, cells in table.columns.items() if name != called}
    arrays, ignored = _feeds(replace(table, columns=features), inputs, takes, warn)
    if ignored:
        warn(
            f"{table.name}: the model has no input for {_listed(ignored)}; not used"
            + ("" if labels is not None else "; --label COLUMN names one that holds the class")
        )
    return arrays, labels


def _ignore(warning: str) -> None:
    del warning


def _feeds(
    table: Table, inputs: Sequence[ValueSpec], takes: TableInputs, warn: Callable[[str], None]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays of the inputs, and the names of the columns that no input takes."""
    arrays: dict[str, np.ndarray] = {}
    used: set[str] = set()
    for spec in inputs:
        names = _columns_of(spec, inputs, table, takes.metadata)
        used |= set(names)
        parts = [_converted(name, table.columns[name], spec, table, takes, warn) for name in names]
        arrays[spec.name] = _joined(parts, spec, table)
    return arrays, [name for name in table.columns if name not in used]


def _converted(
    name: str, cells: Cells, spec: ValueSpec, table: Table, takes: TableInputs, warn: Callable[[str], None]
) -> np.ndarray:
    of_texts = replace(spec.of_texts, dtype="str") if spec.vocabulary is not None else spec
    column = Column(name, of_texts, spec.name in takes.nan_inputs, table.at)
    array = column.converted(cells)
    if spec.vocabulary is not None:
        return array
    warning = column.rounded(cells, array)
    if warning is not None:
        warn(f"{table.name}: {warning}")
    return array


def _joined(parts: Sequence[np.ndarray], spec: ValueSpec, table: Table) -> np.ndarray:
    """The input's array for all rows."""
    taken = spec.of_texts if spec.vocabulary is not None else spec
    array = parts[0] if len(parts) == 1 else np.stack(parts, axis=1)
    rank = None if taken.shape is None else len(taken.shape)
    if array.ndim == 1 and rank == _MATRIX_RANK:
        array = array[:, np.newaxis]
    one = (1, *array.shape[1:])
    if not taken.takes_shape(one):
        raise InputError(
            "a row does not fit the model's input",
            subject=table.name,
            expected=str(taken),
            found=str(ValueSpec(spec.name, array.dtype.name, one)),
            hint=_of_rows(taken, len(array)),
        )
    return array


def _of_rows(spec: ValueSpec, rows: int) -> str:
    """A hint with the shape that an array of all rows needs."""
    sizes = None if spec.shape is None else (rows, *(size if isinstance(size, int) else "?" for size in spec.shape[1:]))
    shape = "" if sizes is None else f", so that its shape is {'×'.join(map(str, sizes))} here"
    return f"an array's first axis counts samples{shape}"


def _columns_of(
    spec: ValueSpec,
    inputs: Sequence[ValueSpec],
    table: Table,
    metadata: Mapping[str, str],
) -> list[str]:
    """The names of the columns that an input takes, in order."""
    columns = table.columns
    if spec.name in columns:
        return [spec.name]
    if len(inputs) > 1:
        raise InputError(
            "an array without names feeds one input" if table.unnamed else f"there is no column {spec.name!r}",
            subject=table.name,
            expected=f"a column for each of the inputs {_listed([one.name for one in inputs])}",
            found="an array" if table.unnamed else _listed(list(columns)),
            hint="rename the column, or save the samples as .npz files with an array for each input",
        )
    stated = () if table.unnamed else feature_names(metadata)
    lacking = [name for name in stated if name not in columns]
    if lacking:
        raise InputError(
            "the table lacks columns that the model's metadata name",
            subject=table.name,
            expected=f"{_listed(lacking)}, of feature_names",
            found=_listed(list(columns)),
        )
    if stated:
        return list(stated)
    width, rest = _width(spec), list(columns)
    if len(rest) == 1 or width is None or len(rest) == width:
        return rest
    raise InputError(
        "the table does not have as many columns as the model takes numbers",
        subject=table.name,
        expected=f"{width} columns for {spec}",
        found=f"{len(rest)}: {_listed(rest)}",
        hint=_width_hint(rest, width),
    )


def _width(spec: ValueSpec) -> int | None:
    """How many values a sample has; None if the model leaves a size free."""
    taken = spec.of_texts if spec.vocabulary is not None else spec
    sizes = (taken.shape or (None, None))[1:]
    return (
        math.prod(size for size in sizes if isinstance(size, int)) if all(isinstance(n, int) for n in sizes) else None
    )


def _width_hint(names: Sequence[str], width: int) -> str:
    if names and not names[0].strip():
        return "the first column has no name: pandas wrote the rows' numbers there; write with to_csv(index=False)"
    if len(names) == width + 1:
        return (
            "--label COLUMN names the one that holds the class; leave out what is not a feature, such as a number "
            "to predict"
        )
    return "leave out what is not a feature; the columns stand in the order of the training"


def _labels(
    table: Table, input_names: set[str], class_names: Sequence[str], label: str | None
) -> tuple[list[int] | None, str | None]:
    """The label of every row, and the name of the column that holds the labels; None for each that does not exist."""
    if table.labels is not None:
        return [_label(value, table, row, class_names, "labels") for row, value in enumerate(table.labels)], None
    if label is None and (LABEL_ARRAY not in table.columns or LABEL_ARRAY in input_names):
        return None, None
    name = label or LABEL_ARRAY
    if name not in table.columns:
        raise InputError(
            "the table has no such column",
            subject=f"--label {name}",
            expected=near_names(name, table.columns),
            found=f"{table.name}: {_listed(list(table.columns))}",
        )
    cells = table.columns[name]
    if np.ndim(cells) != 1:
        raise InputError(
            "the labels are not a column", subject=table.name, expected="one a row", found=f"shape {np.shape(cells)}"
        )
    return [_label(value, table, row, class_names, name) for row, value in enumerate(cells)], name


def _label(value: object, table: Table, row: int, class_names: Sequence[str], name: str) -> int:
    """The number of the class that a cell names."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool):
        plain = str(plain) if str(plain) in class_names else int(plain)
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    if isinstance(plain, int) and str(plain) in class_names:
        plain = str(plain)
    if isinstance(plain, str) and plain.strip() not in class_names:
        plain = _whole(plain)
    where = f"{table.at(row)}, column {name!r}"
    if not isinstance(plain, int | str):
        raise InputError(
            "the label is not a class",
            subject=where,
            expected="a number from 0, or a class's name",
            found=repr(value),
            hint="a column of numbers to predict is not a label: leave it out of the table",
        )
    return check_label(np.array(plain), where, class_names)


def _whole(text: str) -> str:
    """The class number that a text holds: without ``.0``, and True and False as 1 and 0; other texts unchanged."""
    plain = text.strip()
    number, point, zeros = plain.partition(".")
    if point and number.isdecimal() and not zeros.strip("0"):
        return number
    return {"true": "1", "false": "0"}.get(plain.casefold(), text)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMES])
    return shown + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "") or "no column"
