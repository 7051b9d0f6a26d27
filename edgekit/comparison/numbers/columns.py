"""Outputs whose columns are different quantities, such as an offset in pixels beside a price.

The power of the largest column is nearly that of the whole output, however wrong the others are. What an output
explains, ``1 - Σ (built - reference)² / Σ (reference - mean)²``, is therefore asked of each column if columns have
different scales. Scores of classes, probabilities and embeddings have one scale, and are judged as a whole.

Quantities may also vary little around a large number: a temperature in kelvin, or a load of 300 kWh plus or minus 10.
The power of such an output is that of the large number, and an error of three standard deviations is 20 dB below it.
What counts then is the power of what varies, provided that the output tells no class: it is a single number, the same
one of several is the largest in all samples, as the highest of some quantiles is, or the numbers are no decision, as
those of a forecast. The same holds for numbers between 0 and 1: a probability of 30 plus or minus 2 % no longer ranks
samples if the error is 3 %, which is 20 dB. It holds for tables, too, such as quantiles for each hour of a day, unless
their numbers lie between 0 and 1, which may be a map.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgekit.comparison.embeddings.angles import LEAST_EXPLAINED

MOST_COLUMNS = 16
"""Longer vectors are scores of classes, embeddings or curves; longer rows of a table are scores or features."""
LONGEST_CURVE = 4096
"""For vectors and tables with more numbers no means are kept."""
MOST_AXES = 3
"""A table has at most this many axes: a batch, steps and the numbers of each step. Others are maps and pictures."""
FEWEST_SAMPLES = 16
"""On fewer samples the variances of two columns of one scale may be far apart by chance."""
APART = 100.0
"""How many times the variance of one column has to be that of another for their scales to differ: ten times the
scale."""
SHARES_VARY = 10 * 2.0**-11
"""The standard deviation from which on numbers between 0 and 1 tell samples apart: ten times the spacing of
half-precision numbers below 1. Those of a Sigmoid that is sure of all samples vary less, and rounding is much of
that."""
RANGE = 1e100
"""How many times as large as on the first sample numbers may be before their squares leave the range of doubles."""
SAME = 1e-10
"""What varies by less than this share of its power is the same for all samples: rounding makes up the rest."""


@dataclass(frozen=True)
class ColumnAccuracy:
    """The column of an output that keeps the least of what tells samples apart."""

    column: int
    """Its place on the last axis, from 0."""
    columns: int
    explained: float
    """The share of its own variance that the built model explains; negative where more is error."""
    is_channel: bool = False
    """Whether it is a channel of a field, over all places (:mod:`edgekit.comparison.numbers.fields`)."""

    @property
    def is_lost(self) -> bool:
        """Whether the column explains less than :data:`LEAST_EXPLAINED`, so that people are told."""
        return not self.explained >= LEAST_EXPLAINED

    @property
    def tells_nothing(self) -> bool:
        """Whether giving the column's mean for every sample would be no farther from the original."""
        return not self.explained > 0


@dataclass(frozen=True)
class ColumnError:
    """By how much one number of an output is off, in its own unit."""

    mean: float
    """The absolute error, on average over the samples."""
    most: float
    """The absolute error on the worst sample."""
    deviation: float
    """The standard deviation of the original's number over the samples."""


class Columns:
    """Gathers what each column of one output keeps of the original's, sample by sample."""

    def __init__(self) -> None:
        self._samples = 0
        self._first: np.ndarray | None = None
        self._sum = self._squares = self._power = self._noise = np.zeros(0)
        self._are_shares = self._fits = self._is_short = self._is_vector = True
        self._scale = 1.0
        self._largest: set[int] = set()
        self._errors = self._most = np.zeros(0)

    def add(self, reference: np.ndarray, built: np.ndarray) -> None:
        """Compares the output for one more sample; those that are no vector or table of finite floats do not count."""
        fits = reference.dtype.kind == "f" and reference.ndim > 0 and reference.shape == built.shape
        self._is_vector = self._is_vector and max(reference.shape, default=1) == reference.size
        is_table = fits and reference.ndim <= MOST_AXES and reference.shape[-1] <= MOST_COLUMNS
        fits = fits and 1 <= reference.size <= LONGEST_CURVE and (self._is_vector or is_table)
        self._is_short = self._is_short and fits and reference.shape[-1] == reference.size <= MOST_COLUMNS
        self._fits = self._fits and fits and bool(np.isfinite(reference).all() and np.isfinite(built).all())
        if not self._fits:
            return
        wide, found = (array.astype(np.float64).ravel() for array in (reference, built))
        self._are_shares = self._are_shares and bool(((wide >= 0) & (wide <= 1)).all())
        peak = float(np.abs(wide).max())
        if self._first is None:
            self._scale = peak or 1.0  # keeps squares in range
        elif peak / RANGE > self._scale:
            self._rescale(peak)
        wide, found = wide / self._scale, found / self._scale
        if self._first is None:
            self._first = wide
            self._sum, self._squares, self._power, self._noise = np.zeros((4, wide.size))
            self._errors, self._most = np.zeros((2, wide.size))
        if wide.size != self._first.size:
            self._fits = False
            return
        offset = wide - self._first  # keeps the digits of columns that vary little around a large number
        self._samples += 1
        self._sum = self._sum + offset
        self._squares = self._squares + offset**2
        self._power = self._power + wide**2
        self._noise = self._noise + (found - wide) ** 2
        self._largest.add(int(wide.argmax()))
        error = np.abs(found - wide)
        self._errors, self._most = self._errors + error, np.maximum(self._most, error)

    def _rescale(self, scale: float) -> None:
        """Gives the sums so far as those of the numbers over a larger scale."""
        smaller = self._scale / scale
        self._first = None if self._first is None else self._first * smaller
        self._sum, self._errors, self._most = (each * smaller for each in (self._sum, self._errors, self._most))
        self._squares, self._power, self._noise = (
            each * smaller**2 for each in (self._squares, self._power, self._noise)
        )
        self._scale = scale

    def worst(self) -> ColumnAccuracy | None:
        """Returns the column that is explained the least, or None if columns have one scale or samples are too few."""
        if not self._tells or self._are_shares or not self._is_short:
            return None
        variance = self._variance
        varying = np.flatnonzero(variance > SAME * self._power)
        if len(varying) < 2 or variance[varying].max() < APART * variance[varying].min():
            return None
        explained = 1 - self._noise[varying] / variance[varying]
        least = int(explained.argmin())
        return ColumnAccuracy(int(varying[least]), len(variance), float(explained[least]))

    def centred_db(self, *, decides: bool = True, shares_decide: bool = True) -> float | None:
        """Returns the SQNR in dB of what varies between samples; None if a class may be told or samples are too few.

        Args:
            decides: Whether the largest number may tell a class; that of amounts, say, does not.
            shares_decide: Whether the largest of numbers between 0 and 1 may tell a class. It does not if nearly all
                samples are of one class: then only the order of the samples counts.
        """
        decides = shares_decide if self._are_shares else decides and (len(self._largest) > 1 or not self._is_short)
        if not self._tells or decides or (self._are_shares and not self._is_vector):
            return None
        variance = self._variance
        varying = variance > SAME * self._power
        if not varying.any() or (self._are_shares and self._deviation(variance[varying]) < SHARES_VARY):
            return None
        noise = float(self._noise[varying].sum())
        return math.inf if noise == 0 else 10 * math.log10(float(variance[varying].sum()) / noise)

    def errors(self, *, decides: bool = True, shares_decide: bool = True) -> tuple[ColumnError, ...]:
        """Returns by how much each number is off, for a short output of quantities; empty for other outputs.

        Args:
            decides: See :meth:`centred_db`.
            shares_decide: See :meth:`centred_db`.
        """
        if not self._is_short or self.centred_db(decides=decides, shares_decide=shares_decide) is None:
            return ()
        figures = self._errors / self._samples, self._most, np.sqrt(np.maximum(self._variance, 0) / self._samples)
        scaled = (figure * self._scale for figure in figures)
        return tuple(ColumnError(*map(float, column)) for column in zip(*scaled, strict=True))

    @property
    def is_vector(self) -> bool:
        """Whether only one axis is longer than 1."""
        return self._is_vector

    @property
    def is_curve(self) -> bool:
        """Whether the output is a table, or a vector of more than :data:`MOST_COLUMNS` numbers."""
        return self._fits and not self._is_short

    @property
    def are_shares(self) -> bool:
        """Whether all numbers of the original lie between 0 and 1."""
        return self._are_shares

    @property
    def _tells(self) -> bool:
        return self._fits and self._samples >= FEWEST_SAMPLES

    def _deviation(self, variance: np.ndarray) -> float:
        """The standard deviation over the samples, on average over columns, in the output's own unit."""
        return float(np.sqrt(np.maximum(variance, 0).mean() / self._samples)) * self._scale

    @property
    def _variance(self) -> np.ndarray:
        return self._squares - self._sum**2 / self._samples
