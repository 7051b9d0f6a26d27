"""Cells of a table, as the numbers or texts of an input."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit.data.tables import Cells
from edgekit.errors import InputError
from edgekit.model import ValueSpec

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "<na>"})
"""How tables write a number that is missing, in lower case; a text is missing where its cell is empty."""
_TRUE, _FALSE = frozenset({"true", "1"}), frozenset({"false", "0"})
_NO_VALUES = frozenset({"NAType", "NaTType", "NoneType"})
"""Names of the types that pandas and Python have for missing values."""
_NAN_HINT = (
    "fill it in as the training did, or leave such rows out; an input may hold NaN where a tree ensemble, an Imputer "
    "or IsNaN takes it for a missing value"
)
_GREATEST = sys.float_info.max
_BEYOND = f"numbers end at {_GREATEST:.6g}"
_WHOLE_BITS = {"float16": 11, "float32": 24, "bfloat16": 8, "float64": 53}
"""Bits of the significand, by element type: whole numbers that need more bits are rounded."""


@dataclass(frozen=True)
class Column:
    """A column of a table, and the input that takes it."""

    name: str
    spec: ValueSpec
    may_miss: bool
    """Whether the input takes NaN for a value that is missing."""
    at: Callable[[int], str]
    """Returns what errors call a row."""

    def converted(self, cells: Cells) -> np.ndarray:
        """The cells in the input's element type, of the same shape.

        Numbers become the input's type where it holds them: a float may be rounded to its next neighbor, an integer
        is never changed. True and False are 1 and 0. A missing value becomes NaN if the input takes NaN.

        Raises:
            InputError: A cell does not fit the input; row, column, what was expected and what was found are named.
        """
        if self.spec.dtype == "str":
            return self._texts(cells)
        if isinstance(cells, list) or cells.dtype.kind in "OUT":
            parse = self._parsed if isinstance(cells, list) else self._number
            flat = [parse(cell, row) for row, cell in enumerate(cells)]
            numbers = np.array(flat, dtype=object)
        elif cells.dtype.kind in "biuf":
            numbers = cells
        else:
            raise self._unfit(0, str(cells.dtype), "give numbers, as the training made them of it")
        return self._in_type(numbers)

    def _in_type(self, numbers: np.ndarray) -> np.ndarray:
        missing = np.array([number != number for number in numbers.ravel()]).reshape(numbers.shape)
        if missing.any() and not self.may_miss:
            raise self._unfit(_row_of(missing), "a missing value", _NAN_HINT)
        dtype = np.dtype(self.spec.dtype)
        if dtype.kind == "f":
            with np.errstate(over="ignore"):
                array = numbers.astype(np.float64).astype(dtype)
            overflown = np.isinf(array) & np.isfinite(numbers.astype(np.float64))
            if overflown.any():
                row = _row_of(overflown)
                raise self._unfit(row, numbers[row], f"{dtype} ends at {np.finfo(dtype).max:.6g}")
            return array
        if dtype.kind == "b":
            low, high = 0, 1
        elif dtype.kind in "iu":
            low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        else:
            raise self._unfit(0, f"an input of {self.spec.dtype}", "give the samples as .npz files, one a row")
        whole = np.array(
            [not math.isinf(number) and low <= number <= high and int(number) == number for number in numbers.ravel()]
        )
        if not whole.all():
            row = _row_of(~whole.reshape(numbers.shape))
            raise self._unfit(
                row, np.ravel(numbers)[int(np.argmin(whole))], f"{dtype} holds whole numbers from {low} to {high}"
            )
        return np.array([int(number) for number in numbers.ravel()], dtype=dtype).reshape(numbers.shape)

    def _parsed(self, text: str, row: int) -> Any:
        """The number that is written in a cell of a text file."""
        plain = text.strip()
        folded = plain.casefold()
        if folded in MISSING:
            return math.nan
        if folded in ("true", "false"):
            return int(folded == "true")
        for read in (int, float):
            try:
                number = read(plain)
            except ValueError:
                continue
            if "_" in plain:
                break
            if abs(number) > _GREATEST and any(map(str.isdigit, plain)):  # "inf" has no digits
                raise self._unfit(row, repr(text[:80]), _BEYOND)
            return number
        comma = "decimal commas are not read: write 3.5 for 3,5" if "," in plain else None
        raise self._unfit(row, repr(text[:80]), comma)

    def _number(self, value: Any, row: int) -> Any:
        """The number in a cell that is a Python object; NaN for a missing value."""
        if type(value).__name__ in _NO_VALUES:
            return math.nan
        if isinstance(value, int) and abs(value) > _GREATEST:
            raise self._unfit(row, "a whole number of more than 308 digits", _BEYOND)
        if isinstance(value, bool | int | float | np.bool_ | np.number):
            return value.item() if isinstance(value, np.generic) else value
        hint = "turn texts into numbers as the training did, for example with pandas.to_numeric(column)"
        raise self._unfit(row, repr(value)[:80], hint if isinstance(value, str) else None)

    def _texts(self, cells: Cells) -> np.ndarray:
        texts = []
        for row, cell in enumerate(cells if isinstance(cells, list) else cells.ravel()):
            if type(cell).__name__ in _NO_VALUES or cell == "" or cell != cell:
                raise self._unfit(row, "a missing value", "fill in the text that the training used for missing values")
            if not isinstance(cell, str):
                raise self._unfit(row, f"{cell!r}, no text", "give column.astype(str), if the training used texts")
            texts.append(str(cell))
        return np.array(texts).reshape(np.shape(cells))

    def _unfit(self, row: int, found: object, hint: str | None) -> InputError:
        return InputError(
            f"the cell in column {self.name!r} does not fit the input"
            if self.name
            else "a value does not fit the input",
            subject=self.at(row),
            expected=str(self.spec),
            found=found,
            hint=hint,
        )

    def rounded(self, cells: Cells, array: np.ndarray) -> str | None:
        """A warning that whole numbers lost digits in the input's type, or None if no number did."""
        bits = _WHOLE_BITS.get(self.spec.dtype)
        if bits is None or array.dtype.kind != "f":
            return None
        exact = np.array([_as_whole(cell) for cell in np.ravel(np.asarray(cells, dtype=object))], dtype=object)
        lost = [
            (whole, float(taken))
            for whole, taken in zip(exact, array.ravel(), strict=True)
            if whole is not None and abs(whole) > 2**bits and int(taken) != whole
        ]
        if not lost:
            return None
        (whole, taken), count = lost[0], len(lost)
        what = f"column {self.name!r}" if self.name else "the table"
        return (
            f"{count} whole number{'s' * (count > 1)} in {what} become{'s' * (count == 1)} the next that input "
            f"{self.spec.name!r} holds, {whole} is {int(taken)}: {self.spec.dtype} holds whole numbers up to {2**bits}"
        )


def _as_whole(cell: Any) -> int | None:
    """The whole number that a cell holds, or None if the cell holds another number or no number."""
    try:
        number = float(cell)
        return int(cell) if math.isfinite(number) and number == int(number) and float(cell) == number else None
    except (TypeError, ValueError):
        return None


def _row_of(marked: np.ndarray) -> int:
    """The first row with an element that is True."""
    return int(np.argmax(marked.reshape(len(marked), -1).any(axis=1)))
