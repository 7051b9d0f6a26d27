"""Tells whether adaptive rounding holds for samples that it was not fitted to.

A layer that sees fewer rows than it has inputs can be rounded such that nearly no error is left on just these rows. In
two trained networks with one row a sample, 48 samples had 0.06 to 0.49 of the error of rounding to nearest, and others
had 0.16 to 0.69.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np

from edgekit_quantize.calibration.moments import Moments, rows_each
from edgekit_quantize.integers.qparams import QParams
from edgekit_quantize.rounding.adaround import adaptive_rounding

CHANNELS = 32
"""How many output channels are rounded to find this out; all of them multiply the same rows."""
NO_GAIN = 0.95
"""The share of the error of rounding to nearest from which on adaptive rounding gains too little on other samples."""
MORE_ON_OTHERS = 4.0
"""How many times the error that is left on the samples of the fit may be left on others, both relative to that of
rounding to nearest: with more, the samples of the fit tell too little about the result. It is 1.3 to 2.9 for the
convolutions of a network with 128 rows each of 48 pictures, and 10 to 400 for layers with one row of 16 samples. Fitted
to all samples, which are twice as many, the factor is smaller."""


class Basis(Enum):
    """The samples that a layer's weights are fitted to."""

    ALL = auto()
    """All, as others are left with about the same error."""
    PART = auto()
    """One part, because candidates have to be scored on the other."""
    NONE = auto()
    """None: the weights are rounded to nearest."""


@dataclass(frozen=True)
class Parts:
    """The two parts of the samples: weights are fitted to one of them, and the other one shows whether that holds."""

    samples: int = 2
    """The number of samples; the rows of a single one are divided in the middle."""
    judged: int | None = None
    """The remainder by 2 of the places of samples on which candidates with weights fitted to one part are scored; None
    if there are too few samples for that, so that all candidates are scored on all of them."""

    apart: bool = False
    """Whether candidates are scored on samples beside these, so that weights may be fitted to all of these."""

    @property
    def rows_each(self) -> int:
        """How many rows of a sample's product are taken at most."""
        return rows_each(self.samples)


EVERY_OTHER = Parts()
"""Every other sample, and no candidates that are scored on these alone."""


class Halves:
    """Second moments of the rows that a layer multiplies, for each part of the samples."""

    def __init__(self, size: int) -> None:
        self.fitted, self.others = Moments(size), Moments(size)

    def update(self, rows: np.ndarray, place: int, parts: Parts) -> None:
        """Add the rows of the sample at a place."""
        if parts.samples == 1:
            self.fitted.update(rows[: len(rows) // 2])
            self.others.update(rows[len(rows) // 2 :])
        else:
            (self.others if place % 2 == (parts.judged or 0) else self.fitted).update(rows)

    @property
    def seconds(self) -> Seconds | None:
        """The moments that were measured; None if no sample has a row."""
        count = self.fitted.count + self.others.count
        if not count:
            return None
        return Seconds(self.fitted.second, self.others.second, self.fitted.count / count)


@dataclass(frozen=True)
class Seconds:
    """``E[x x']`` of a layer's inputs in each part of the samples, ``[K, K]``."""

    fitted: np.ndarray
    others: np.ndarray
    share: float
    """The share of the rows that are in the first part."""

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return self.fitted.nbytes + self.others.nbytes

    def over(self, divisors: np.ndarray) -> Seconds:
        """The moments of rows that are divided by factors, one for each input."""
        both = np.outer(divisors, divisors)
        return replace(self, fitted=self.fitted / both, others=self.others / both)

    def rounded(self, weights: np.ndarray, params: QParams, parts: Parts) -> tuple[np.ndarray | None, Basis]:
        """Integers for a layer's weights, and what they were fitted to; None if they should be rounded to nearest.

        Args:
            weights: ``[N, K]``, one row per output channel.
            params: Symmetric parameters, with one scale per row or one for all rows.
            parts: How the samples are divided.
        """
        basis = self.basis(weights, params)
        if basis is Basis.PART and parts.apart:
            basis = Basis.ALL
        elif basis is Basis.PART and parts.judged is None:
            basis = Basis.NONE
        if basis is Basis.NONE:
            return None, basis
        all_rows = self.share * self.fitted + (1 - self.share) * self.others
        return adaptive_rounding(weights, params, self.fitted if basis is Basis.PART else all_rows), basis

    def basis(self, weights: np.ndarray, params: QParams) -> Basis:
        """The samples that weights should be fitted to; see :meth:`rounded`."""
        if not 0 < self.share < 1:
            return Basis.NONE
        some = np.unique(np.linspace(0, len(weights) - 1, CHANNELS).round().astype(int))
        scale = np.broadcast_to(np.asarray(params.scale, np.float64).reshape(-1), len(weights))[some]
        channels = replace(params, scale=scale.reshape(-1, 1), zero_point=np.zeros((len(some), 1)))
        exact = weights[some].astype(np.float64)
        high = params.dtype.high
        nearest = np.clip(np.rint(exact / scale[:, None]), -high, high) * scale[:, None] - exact
        chosen = adaptive_rounding(exact, channels, self.fitted) * scale[:, None] - exact
        on_fitted, on_others = (
            _left(chosen, second) / max(_left(nearest, second), np.finfo(float).tiny)
            for second in (self.fitted, self.others)
        )
        if on_others > NO_GAIN:
            return Basis.NONE
        return Basis.ALL if on_others <= MORE_ON_OTHERS * on_fitted else Basis.PART


def _left(error: np.ndarray, second: np.ndarray) -> float:
    return float(np.sum((error @ second) * error))
