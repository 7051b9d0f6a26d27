"""The matrices of a Fourier transform in two steps, for runtimes that have only matrix products.

A transform of N = rows × columns numbers is a transform of each column and then one of each row, with the factors
between the two merged into the row matrices: Cooley and Tukey, An Algorithm for the Machine Calculation of Complex
Fourier Series (1965). With the input n = columns·a + b and the output k = c + rows·d::

    X[c + rows·d] = sum over b of W(columns)^(b·d) · W(N)^(b·c) · (sum over a of W(rows)^(a·c) · x[columns·a + b])

where W(n) = exp(-2πi/n). Both sums take real and imaginary parts side by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TwoSteps:
    """A transform as two products."""

    columns: np.ndarray
    """The matrix for each column, float64 [parts · rows, 2 · rows]: parts of the input, then of the result."""
    rows: np.ndarray
    """The matrix for each row, float64 [rows, 2 · columns, outputs · columns]."""

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows and columns there are."""
        return len(self.rows), self.rows.shape[1] // 2

    @property
    def cells(self) -> int:
        """The number of elements of both matrices."""
        return self.columns.size + self.rows.size


def two_steps(length: int, parts: int, *, inverse: bool, is_real: bool = False) -> TwoSteps | None:
    """Returns the matrices of a transform of ``length`` numbers, or None if ``length`` is prime.

    Args:
        length: How many numbers are transformed.
        parts: 1 where the input is real, 2 where its imaginary parts follow its real ones.
        inverse: Whether it is the inverse transform, which divides by the length.
        is_real: Whether only the real parts of the result are computed.
    """
    outputs = 1 if is_real else 2
    ways = [(rows, length // rows) for rows in range(2, length // 2 + 1) if length % rows == 0]
    if not ways:
        return None
    rows, columns = min(ways, key=lambda way: 2 * parts * way[0] ** 2 + 2 * outputs * way[0] * way[1] ** 2)
    sign = 1 if inverse else -1
    of_columns = _side_by_side(_powers(rows, rows, rows, sign))[: parts * rows]
    factors = _powers(rows, columns, length, sign)[:, :, None]
    of_rows = factors * _powers(columns, columns, columns, sign) / (length if inverse else 1)
    wide = np.stack([_side_by_side(each) for each in of_rows])
    return TwoSteps(of_columns, wide[:, :, : outputs * columns])


def mirrored(length: int) -> np.ndarray:
    """Returns the bins, int64, whose conjugates are the second half of a real signal's spectrum, in order."""
    return np.arange((length - 1) // 2, 0, -1, dtype=np.int64)


def _powers(first: int, second: int, period: int, sign: int) -> np.ndarray:
    """``exp(sign · 2πi · a · b / period)`` for all a and b; the products are reduced as integers, which is exact."""
    turns = np.outer(np.arange(first), np.arange(second)) % period
    return np.asarray(np.exp(sign * 2j * math.pi / period * turns))


def _side_by_side(factors: np.ndarray) -> np.ndarray:
    """Returns a complex matrix as a real one, for vectors of real parts followed by imaginary parts."""
    return np.block([[factors.real, factors.imag], [-factors.imag, factors.real]])
