"""Numbers that stand in order in every sample, as quantiles of a forecast do, and whether what was built keeps it.

The tenth percentile is below the median, and a chance to survive falls from year to year. Numbers that are near the
original's may be out of that order where two of them are near each other: quantiles cross. Rows along the last axis are
looked at. Two numbers count where they are farther apart in the original than rounding to half precision moves them.
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
"""How near numbers are, as a share of the largest one of their row, that half precision may not tell apart."""


@dataclass(frozen=True)
class OrderAccuracy:
    """Of how many rows of an output what was built keeps the order."""

    rows: int
    """How many there are along the last axis, over all samples."""
    broken: int
    """In how many of them two numbers have changed their order."""

    @property
    def is_lost(self) -> bool:
        """Whether more of them are out of order than may be."""
        return self.broken > MAX_BROKEN * self.rows

    def __str__(self) -> str:
        """In words."""
        return f"{self.broken} of {self.rows} rows are out of the order in which the original's numbers always are"


class OrderCount:
    """Gathers whether one output's numbers stand in order, sample by sample."""

    def __init__(self) -> None:
        self._samples = self._rows = self._rising = self._falling = 0
        self._rises = self._falls = True

    def add(self, reference: np.ndarray, built: np.ndarray) -> None:
        """Looks at the output for one more sample, of one shape; other than rows of 2 to 16 floats are in no order."""
        if reference.dtype.kind != "f" or not reference.ndim or not 1 < reference.shape[-1] <= MOST_NUMBERS:
            self._rises = self._falls = False
        if not (self._rises or self._falls):
            return
        rows, others = (each.reshape(-1, each.shape[-1]).astype(np.float64) for each in (reference, built))
        steps, found = np.diff(rows), np.diff(others)
        least = ROUNDING * np.abs(rows).max(axis=1, keepdims=True)
        self._samples += 1
        self._rows += len(steps)
        self._rises = self._rises and bool((steps >= 0).all())
        self._falls = self._falls and bool((steps <= 0).all())
        self._rising += int(((steps > least) & (found < 0)).any(axis=1).sum())
        self._falling += int(((steps < -least) & (found > 0)).any(axis=1).sum())

    def result(self) -> OrderAccuracy | None:
        """What became of the order; None where the original's numbers are in none, or too few samples tell."""
        if self._rises == self._falls or self._samples < FEWEST_SAMPLES:
            return None
        return OrderAccuracy(self._rows, self._rising if self._rises else self._falling)
