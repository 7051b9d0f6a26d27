"""Which part of a histogram the integers should cover: four rules over the same counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgekit_quantize.calibration.histogram import Histogram
from edgekit_quantize.qparams import IntegerType, QParams, asymmetric, symmetric

Range = tuple[float, float]
PERCENTILE = 99.999
SHRINKS = np.linspace(1.0, 0.2, 41)
"""The parts of the full range that the search by error tries."""


def minmax(histogram: Histogram) -> Range:
    """The extremes."""
    return (0.0, 0.0) if histogram.is_empty else (histogram.low, histogram.high)


def percentile(histogram: Histogram, percent: float = PERCENTILE) -> Range:
    """The range that leaves out ``100 - percent`` percent of the numbers, half at each end, within the extremes."""
    if histogram.is_empty or histogram.width == 0.0:
        return minmax(histogram)
    below = np.cumsum(histogram.counts) / histogram.total
    tail = (1 - percent / 100) / 2
    first = int(np.searchsorted(below, tail, side="right"))
    last = int(np.searchsorted(below, 1 - tail, side="left"))
    edges = histogram.edges
    return max(histogram.low, float(edges[first])), min(histogram.high, float(edges[min(last, len(below) - 1) + 1]))


def squared_error(histogram: Histogram, params: QParams) -> float:
    """Mean squared error of quantizing the numbers that the histogram counted, taken at the middle of their bins."""
    if histogram.is_empty:
        return 0.0
    filled = np.flatnonzero(histogram.counts)
    centers = histogram.centers[filled]
    counts = histogram.counts[filled]
    return float(np.dot(counts, (params.rounded(centers) - centers) ** 2) / histogram.total)


def least_error(histogram: Histogram, dtype: IntegerType, symmetric_range: bool = False) -> Range:
    """The range with the least mean squared error after quantization, by trying shrunken ones.

    Each end is shrunk on its own (alternating once), as outliers often stand on one side only. Choukroun et al.,
    Low-bit Quantization of Neural Networks for Efficient Inference (ICCVW 2019), minimise the same error.
    """
    low, high = minmax(histogram)
    if histogram.is_empty or histogram.width == 0.0:
        return low, high

    def error(a: float, b: float) -> float:
        return squared_error(histogram, make(a, b, dtype, symmetric_range))

    if symmetric_range or low >= 0 or high <= 0:
        shrink = min(SHRINKS, key=lambda s: error(low * s, high * s))
        return low * float(shrink), high * float(shrink)
    top = high * float(min(SHRINKS, key=lambda s: error(low, high * s)))
    bottom = low * float(min(SHRINKS, key=lambda s: error(low * s, top)))
    return bottom, top


def make(low: float, high: float, dtype: IntegerType, symmetric_range: bool) -> QParams:
    """Parameters that cover a range."""
    return symmetric(low, high, dtype) if symmetric_range else asymmetric(low, high, dtype)


RULES: dict[str, Callable[[Histogram, IntegerType, bool], Range]] = {
    "minmax": lambda histogram, dtype, symmetric_range: minmax(histogram),
    "percentile": lambda histogram, dtype, symmetric_range: percentile(histogram),
    "mse": least_error,
}
"""The rules by name."""
