"""Histograms of every channel of a tensor, with bins of equal relative width for small and large numbers."""

from __future__ import annotations

import math

import numpy as np

from edgekit_quantize.calibration.histogram import Histogram, of_each, thinning

SAMPLED = 2**22
"""About how many values are counted over all arrays, evenly spread over them. Many are needed, because the cost of
clipping depends on rare values."""
LEAST_OF_ARRAY, MOST_OF_ARRAY = 2**15, 2**18
"""The least and the greatest number of values of a single array that are counted."""
STEPS = 8
"""The number of bins per octave."""
OCTAVES = range(-20, 12)
"""The exponents of 2 for which magnitudes have bins; smaller magnitudes count as 0. If some of a tensor's numbers are
larger, or all of them far smaller, they are counted divided by a power of 2 (:attr:`ChannelHistogram.exponent`)."""
LEAST_OCTAVES = 12
"""How many octaves below the largest magnitude have bins at least."""
MOST_DOUBLINGS = 120
"""The largest exponent of a power of 2 by which numbers are divided or multiplied: float32 holds it."""
BINS = STEPS * len(OCTAVES)
"""The number of bins for each sign."""
MANTISSA_BITS, STEP_BITS, EXPONENT_BIAS = 23, 3, 127
"""Properties of float32 (IEEE 754): its sign, exponent and first STEP_BITS mantissa bits give the bin."""
LOWEST = (OCTAVES.start + EXPONENT_BIAS) << STEP_BITS
SHIFT = MANTISSA_BITS - STEP_BITS


def _values() -> np.ndarray:
    middle = ((np.arange(BINS, dtype=np.uint32) + LOWEST) << SHIFT) + (1 << (SHIFT - 1))
    positive = middle.astype(np.uint32).view(np.float32).astype(np.float64)
    positive[0] = 0.0
    return np.concatenate([-positive[::-1], positive])


def _places() -> np.ndarray:
    first_bits = np.arange(1 << (32 - SHIFT))
    sign = 1 << (32 - SHIFT - 1)
    magnitude = np.clip(first_bits % sign - LOWEST, 0, BINS - 1)
    return np.where(first_bits >= sign, BINS - 1 - magnitude, BINS + magnitude).astype(np.int32)


PLACES = _places()
"""The bin of a number, indexed by its first bits."""
VALUES = _values()
"""The middle of each bin with :attr:`ChannelHistogram.exponent` 0, in ascending order; float64 ``[2 * BINS]``."""
ZEROS = slice(BINS - 1, BINS + 1)
"""The bins of 0."""


class ChannelHistogram:
    """Counts of a stream of numbers by channel, with each channel's exact extremes.

    In large arrays, only every k-th number is counted.

    Args:
        expected: The expected number of arrays.
    """

    def __init__(self, expected: int = 1) -> None:
        self._sampled = of_each(SAMPLED, expected, LEAST_OF_ARRAY, MOST_OF_ARRAY)
        self.counts = np.zeros((0, 2 * BINS), np.int64)
        """``[C, 2 * BINS]``."""
        self.exponent = 0
        """The numbers are counted divided by 2 to the power of this."""
        self.low = np.zeros(0)
        self.high = np.zeros(0)
        """The extremes of each channel, ``[C]``; 0 if no number was lower or higher."""
        self.not_finite = 0
        """The number of values that were NaN or infinite, which are counted as 0."""
        self.holds_nan = False
        """Whether some values were NaN."""

    @property
    def values(self) -> np.ndarray:
        """The middle of each bin, in ascending order; float64 ``[2 * BINS]``."""
        return np.asarray(np.ldexp(VALUES, self.exponent))

    def update(self, array: np.ndarray, axis: int) -> None:
        """Count the numbers of a float tensor with channels along ``axis``, if it has any."""
        if not array.size:
            return
        channels = array.shape[axis]
        if not len(self.counts):
            self.counts = np.zeros((channels, 2 * BINS), np.int64)
            self.low, self.high = np.zeros(channels), np.zeros(channels)
        rows = np.moveaxis(array, axis, 0).reshape(channels, -1).astype(np.float32, copy=False)
        low, high = rows.min(1), rows.max(1)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            finite = np.isfinite(rows)
            self.not_finite += rows.size - int(finite.sum())
            self.holds_nan |= bool(np.isnan(low).any())
            rows = np.where(finite, rows, np.float32(0.0))
            low, high = rows.min(1), rows.max(1)
        self._cover(float(max(-low.min(), high.max())))
        self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
        some = rows[:, :: thinning(array.shape, self._sampled)]
        if self.exponent:
            some = some * np.float32(2.0**-self.exponent)
        bits = np.ascontiguousarray(some).view(np.uint32)
        place = np.take(PLACES, bits >> SHIFT)
        place += np.arange(channels, dtype=place.dtype)[:, None] * (2 * BINS)
        self.counts += np.bincount(place.reshape(-1), minlength=self.counts.size).reshape(self.counts.shape)

    def _cover(self, magnitude: float) -> None:
        """Choose the exponent so that numbers up to ``magnitude`` have bins; those that are counted move to theirs."""
        octave = math.frexp(magnitude)[1]
        if magnitude and octave < OCTAVES.start + LEAST_OCTAVES and not (self.low.any() or self.high.any()):
            self.exponent = max(octave - OCTAVES.stop, -MOST_DOUBLINGS)
        more = min(octave, MOST_DOUBLINGS + OCTAVES.stop) - (OCTAVES.stop + self.exponent)
        if more > 0:
            self.exponent += more
            self.counts = np.hstack(
                [_lowered(self.counts[:, BINS - 1 :: -1], more)[:, ::-1], _lowered(self.counts[:, BINS:], more)]
            )

    def divided(self, factors: np.ndarray) -> Histogram:
        """One histogram of all channels, each divided by its factor."""
        histogram = Histogram()
        low, high = float((self.low / factors).min()), float((self.high / factors).max())
        histogram.update_counted(self.values / factors[:, None], self.counts, low, high)
        histogram.not_finite, histogram.holds_nan = self.not_finite, self.holds_nan
        return histogram


def _lowered(counts: np.ndarray, octaves: int) -> np.ndarray:
    """Counts of magnitudes, in the bins of magnitudes that are ``octaves`` octaves lower; ``[C, BINS]``."""
    bins = min(octaves * STEPS, BINS - 1)
    zeros = counts[:, : bins + 1].sum(1, keepdims=True)
    return np.hstack([zeros, counts[:, bins + 1 :], np.zeros((len(counts), bins), counts.dtype)])
