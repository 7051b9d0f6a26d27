"""Rules that choose which part of a histogram the integers cover."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from edgekit_quantize.calibration.histogram import BINS, Histogram
from edgekit_quantize.integers.qparams import TINY, IntegerType, QParams, asymmetric, symmetric

Range = tuple[float, float]
PERCENTILE = 99.999
LEVELS = 128
TRIED = 64
"""The number of levels of a magnitude in 8 bits, and of magnitudes that the search by divergence tries."""
SHRINKS = np.linspace(1.0, 0.2, 41)
"""The fractions of the full range that the search by error tries."""
COARSE = 5
"""The step with which SHRINKS are first tried for both ends together: with few bits, the best lower end depends on the
upper end."""


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
    """The range with the least mean squared error after quantization, found by trying smaller ranges.

    The ends are shrunk independently, as outliers are often on one side only: first both together in coarse steps, then
    one after the other in fine steps. Choukroun et al., Low-bit Quantization of Neural Networks for Efficient Inference
    (ICCVW 2019), minimize the same error.
    """
    low, high = minmax(histogram)
    if histogram.is_empty or histogram.width == 0.0:
        return low, high

    def error(a: float, b: float) -> float:
        return squared_error(histogram, make(a, b, dtype, symmetric_range))

    if symmetric_range or low >= 0 or high <= 0:
        shrink = min(SHRINKS, key=lambda s: error(low * s, high * s))
        return low * float(shrink), high * float(shrink)
    pairs = itertools.product(SHRINKS[::COARSE], repeat=2)
    below, above = min(pairs, key=lambda pair: error(low * pair[0], high * pair[1]))
    above = min(SHRINKS, key=lambda s: error(low * below, high * s))
    below = min(SHRINKS, key=lambda s: error(low * s, high * above))
    return low * float(below), high * float(above)


def least_divergence(histogram: Histogram) -> Range:
    """The range, clipped at one magnitude on both sides, with which 8-bit numbers preserve most of the distribution.

    Migacz, 8-bit Inference with TensorRT (GTC 2017): for every magnitude, the histogram with all larger numbers in its
    last bin is compared with its quantization to 128 levels, by the Kullback-Leibler divergence.
    """
    if histogram.is_empty or histogram.width == 0.0:
        return minmax(histogram)
    magnitudes = (histogram.counts[BINS:] + histogram.counts[:BINS][::-1]).astype(np.float64)
    used = int(np.flatnonzero(magnitudes)[-1]) + 1
    ends = np.unique(np.linspace(min(LEVELS, used), used, TRIED).astype(int))
    end = min(ends, key=lambda bins: _divergence(magnitudes[:used], int(bins)))
    magnitude = float(end) * histogram.width
    return max(histogram.low, -magnitude), min(histogram.high, magnitude)


def _divergence(counts: np.ndarray, bins: int) -> float:
    """How much of ``counts`` is lost when they are clipped to ``bins`` and merged into :data:`LEVELS`, in nats."""
    kept = counts[:bins]
    clipped = kept.copy()
    clipped[-1] += counts[bins:].sum()
    level = np.arange(bins) * LEVELS // bins
    filled = kept > 0
    share = np.bincount(level, kept, LEVELS) / np.maximum(np.bincount(level, filled, LEVELS), 1)
    spread = np.where(filled, share[level], 0.0)
    both = (clipped > 0) & (spread > 0)
    lost = clipped[(clipped > 0) & ~both].sum() / clipped.sum()
    p, q = clipped[both] / clipped.sum(), spread[both] / spread.sum()
    return float(np.sum(p * np.log(p / q)) + lost * -np.log(TINY))


def make(low: float, high: float, dtype: IntegerType, symmetric_range: bool) -> QParams:
    """Parameters that cover a range."""
    return symmetric(low, high, dtype) if symmetric_range else asymmetric(low, high, dtype)


AROUND_ZERO = "around zero"
"""The rule by which an activation becomes int8 with the zero point 0, whatever the type of other activations, if that
increases its error little: a runtime that multiplies integers then has no zero point to subtract. The range is that of
the rule ``percentile``."""
MOST_LOST = 2.0
"""The zero point 0 is used if it increases the mean squared error by at most this factor: 3 dB."""
RULES: dict[str, Callable[[Histogram, IntegerType, bool], Range]] = {
    "minmax": lambda histogram, dtype, symmetric_range: minmax(histogram),
    "percentile": lambda histogram, dtype, symmetric_range: percentile(histogram),
    AROUND_ZERO: lambda histogram, dtype, symmetric_range: percentile(histogram),
    "mse": least_error,
    "entropy": lambda histogram, dtype, symmetric_range: least_divergence(histogram),
}
"""The rules by name."""
