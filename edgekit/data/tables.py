"""Tables: many samples in one file or one object, a row a sample.

- ``.csv`` and ``.tsv``: a first line of names, then a line a row. Cells are separated by commas if the first line has
  one, else by semicolons or tabs; in ``.tsv`` files by tabs if the first line has one. The input that takes a cell
  decides what it means.
- ``.parquet``, where the package ``pyarrow`` is installed.
- ``.npy``: one array whose first axis counts samples, for a model with a single input.
- ``.npz``: an array for each input, whose first axis counts samples.
- In Python a DataFrame, a mapping of columns or arrays by name, an array, or a pair of one of these and its labels.
"""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from edgekit.errors import InputError
from edgekit.files.regular_file import DOCUMENT_BYTES, SAMPLE_BYTES, open_regular, read_text

MOST_ROWS = 100_000
"""Most rows of a table: every row is executed several times."""
LINES_SUFFIX = ".jsonl"
"""Suffix of files with a sample a line, which are not tables (:mod:`edgekit.data.sample_lists`)."""
SUFFIXES = frozenset({".csv", ".tsv", ".parquet", ".npy", ".npz", LINES_SUFFIX})
_SEPARATORS = ",;\t"
_TAB_FIRST = "\t,;"
"""Separators of ``.tsv`` files, in the order in which they are tried: names may hold commas there."""

Cells: TypeAlias = "np.ndarray | list[str]"
"""What a column holds: an array, or the texts of a file's cells, which may be numbers in writing."""


@dataclass(frozen=True)
class Table:
    """Columns of one length."""

    name: str
    """What errors call it."""
    columns: Mapping[str, Cells]
    """The cells of each column by name, in order; an array of several axes holds a whole input."""
    lines: Sequence[int] = ()
    """The line of each row in a text file; empty for other tables."""
    unnamed: bool = False
    """Whether the table is a single array without a name."""
    labels: np.ndarray | None = None
    """The label of each row, if labels were given apart from the columns."""

    def __len__(self) -> int:
        return next((len(cells) for cells in self.columns.values()), 0)

    def at(self, row: int) -> str:
        """What errors call a row: the line of a text file, else its place from 0."""
        return f"{self.name}:{self.lines[row]}" if self.lines else f"{self.name}, row {row}"


def is_table_file(path: Path) -> bool:
    """Whether the path is a file that may hold a table, or a sample a line."""
    return path.suffix.casefold() in SUFFIXES and path.is_file()


def is_frame(given: object) -> bool:
    """Whether an object is a DataFrame, of pandas or Polars say: it gives each of its columns by name."""
    return hasattr(given, "columns") and hasattr(given, "dtypes") and hasattr(given, "__getitem__")


def read_table(file: Path) -> Table:
    """The table that a file holds.

    Raises:
        InputError: The file is damaged or empty, needs a package that is not installed, has columns of several lengths,
            or holds a sample a line.
    """
    suffix = file.suffix.casefold()
    if suffix == LINES_SUFFIX:
        raise InputError(
            "holds a sample on each line, not a table",
            subject=file,
            expected=", ".join(sorted(SUFFIXES - {LINES_SUFFIX})),
            hint="give the samples one by one",
        )
    if suffix in (".csv", ".tsv"):
        return _checked(_from_text(file))
    if suffix == ".parquet":
        return _checked(Table(str(file), _from_parquet(file)))
    try:
        with open_regular(file, SAMPLE_BYTES) as stream:
            loaded = np.load(stream, allow_pickle=False)
            columns = {"": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except InputError:
        raise
    except Exception as error:  # zipfile and NumPy raise a dozen kinds
        raise InputError(
            f"the table cannot be read: {error}",
            subject=file,
            expected=f"a {suffix} file as NumPy writes it, without Python objects",
        ) from error
    return _checked(Table(str(file), columns, unnamed=suffix == ".npy"))


def table_of(given: object, name: str) -> Table | None:
    """The table that a Python object holds, or None if the object is not a table.

    Args:
        given: A DataFrame, a mapping, an array, or a pair of one of these and the labels of its rows.
        name: What errors call it.

    Raises:
        InputError: The table is empty or has columns of several lengths, or a pair is not samples and their labels.
    """
    if isinstance(given, tuple) and len(given) == 2:
        rows, labels = table_of(given[0], name), np.asarray(given[1])
        labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels  # a DataFrame of one column
        if rows is None or labels.shape != (len(rows),):
            raise InputError(
                "is not a pair of samples and labels",
                subject=name,
                expected="(X, y), with a label for each row",
                found=f"({type(given[0]).__name__}, {type(given[1]).__name__} of shape {labels.shape})",
            )
        return Table(rows.name, rows.columns, unnamed=rows.unnamed, labels=labels)
    if isinstance(given, np.ndarray):
        return _checked(Table(name, {"": given}, unnamed=True))
    if is_frame(given):
        frame: Any = given
        columns = list(frame.columns)
        names = [str(column) for column in columns]
        _require_different(names, name)
        return _checked(
            Table(name, {text: np.asarray(frame[column]) for text, column in zip(names, columns, strict=True)})
        )
    if isinstance(given, Mapping):
        return _checked(Table(name, {str(column): np.asarray(cells) for column, cells in given.items()}))
    return None


def _checked(table: Table) -> Table:
    """Returns the table once it is checked: it has 1 to :data:`MOST_ROWS` rows, and columns of one length."""
    lengths = {name: len(cells) if np.ndim(cells) else None for name, cells in table.columns.items()}
    rows = len(table) if None not in lengths.values() else 0
    if not rows or set(lengths.values()) != {rows}:
        raise InputError(
            "the table holds no samples" if set(lengths.values()) <= {0} else "the columns do not have one length",
            subject=table.name,
            expected="a row for each sample",
            found=", ".join(
                f"{name or 'array'}: {'a scalar' if size is None else size}" for name, size in lengths.items()
            )
            or "no column",
        )
    if rows > MOST_ROWS:
        raise InputError(
            "the table is too long",
            subject=table.name,
            expected=f"{MOST_ROWS} rows at most",
            found=rows,
            hint="give a part of it, drawn at random: a few thousand rows give the same figures closely enough",
        )
    return table


def _require_different(names: Sequence[str], subject: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            "columns have the same name",
            subject=subject,
            expected="each name once",
            found=", ".join(map(repr, twice)),
        )


def _from_text(file: Path) -> Table:
    """The cells of a CSV file, as the standard library's ``csv`` reads them (RFC 4180)."""
    text = read_text(file, "utf-8-sig", DOCUMENT_BYTES)
    first = text.partition("\n")[0]
    separators = _TAB_FIRST if file.suffix.casefold() == ".tsv" else _SEPARATORS
    separator = next((each for each in separators if each in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    lines, rows = [], []
    try:
        names = next(reader, [])
        begins = reader.line_num + 1
        for row in reader:
            if row:
                lines.append(begins)
                rows.append(row)
            begins = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"the table cannot be read: {error}", subject=f"{file}:{reader.line_num}", expected="a CSV file"
        ) from error
    if not names or (len(names) == len(set(names)) == 1 and not names[0].strip()):
        raise InputError("the table is empty", subject=file, expected="a line of names, then a line for each sample")
    _require_different(names, str(file))
    uneven = next((place for place, row in enumerate(rows) if len(row) != len(names)), None)
    if uneven is not None:
        raise InputError(
            "the line does not have as many cells as the first",
            subject=f"{file}:{lines[uneven]}",
            expected=f"{len(names)} cells, separated by {separator!r}",
            found=f"{len(rows[uneven])} cells",
            hint="a cell that holds the separator stands in quotation marks",
        )
    columns: dict[str, Cells] = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return Table(str(file), columns, lines)


def _from_parquet(file: Path) -> dict[str, Cells]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise InputError(
            "reading Parquet needs the package pyarrow",
            subject=file,
            hint="pip install pyarrow, or write the table as CSV",
        ) from error
    try:
        with open_regular(file, SAMPLE_BYTES) as stream:
            table = parquet.read_table(stream)
    except InputError:
        raise
    except Exception as error:  # pyarrow raises exceptions of its own classes
        raise InputError(f"the table cannot be read: {error}", subject=file, expected="a Parquet file") from error
    names = list(table.column_names)
    _require_different(names, str(file))
    return {name: table.column(place).to_numpy() for place, name in enumerate(names) if not _is_index(name)}


def _is_index(name: str) -> bool:
    """Whether a column of this name is the index that pandas writes where rows have no names."""
    return name.startswith("__index_level_")
