"""Numbers that are in order in every sample, as quantiles of a forecast are, and whether a build keeps the order.

The tenth percentile is below the median, and a chance to survive falls from year to year. Numbers that are near the
original's may be out of order where two of them are near each other: quantiles cross. Rows along the last axis are
looked at. Two numbers count if they are farther apart in the original than rounding to half precision moves them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOST_NUMBERS = 16
"""Longer rows are curves, which may rise all along for other reasons."""
FEWEST_SAMPLES = 16
"""In fewer samples numbers may be in order by chance."""
MAX_BROKEN = 0.05
"""The share of rows that may be out of order, as of decisions that may change."""
ROUNDING = 2.0**-11
"""Half precision may not tell numbers apart whose difference is at most this share of the largest one in their row."""


@dataclass(frozen=True)
class OrderAccuracy:
    """How many rows of an output are out of order in the built model."""

    rows: int
    """How many rows there are along the last axis, over all samples."""
    broken: int
    """How many of the rows have two numbers that have changed their order."""

    @property
    def is_lost(self) -> bool:
        """Whether more rows are out of order than :data:`MAX_BROKEN` allows."""
        return self.broken > MAX_BROKEN * self.rows

    def __str__(self) -> str:
        """In words."""
        return f"{self.broken} of {self.rows} rows are not sorted, while the original's numbers always are"


class OrderCount:
    """Gathers whether one output's numbers stand in order, sample by sample."""

    def __init__(self) -> None:
        self._samples = self._rows = self._rising = self._falling = 0
        self._rises = self._falls = True

    def add(self, reference: np.ndarray, built: np.ndarray) -> None:
        """Takes the output for one more sample, of one shape; only rows of 2 to 16 floats have an order."""
        if reference.dtype.kind != "f" or not reference.ndim or not 1 < reference.shape[-1] <= MOST_NUMBERS:
            self._rises = self._falls = False
        if not (self._rises or self._falls):
            return
        rows, others = (each.reshape(-1, each.shape[-1]).astype(np.float64) for each in (reference, built))
        with np.errstate(invalid="ignore"):  # the difference of infinities, which have no order
            steps, found = np.diff(rows), np.diff(others)
        least = ROUNDING * np.abs(rows).max(axis=1, keepdims=True)
        self._samples += 1
        self._rows += len(steps)
        self._rises = self._rises and bool((steps >= 0).all())
        self._falls = self._falls and bool((steps <= 0).all())
        self._rising += int(((steps > least) & (found < 0)).any(axis=1).sum())
        self._falling += int(((steps < -least) & (found > 0)).any(axis=1).sum())

    def result(self) -> OrderAccuracy | None:
        """Returns how far the order is kept, or None if the original's numbers have none, or with too few samples."""
        if self._rises == self._falls or self._samples < FEWEST_SAMPLES:
            return None
        return OrderAccuracy(self._rows, self._rising if self._rises else self._falling)
