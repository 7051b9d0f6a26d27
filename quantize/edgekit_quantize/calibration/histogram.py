"""A histogram that grows with its data, so that one pass over a stream is enough."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

BINS = 2048
"""The number of bins for each sign; as the range doubles, between half and all of them are in use."""

SAMPLED = 2**21
"""About how many values are counted over all arrays, evenly spread over them."""
LEAST_OF_ARRAY, MOST_OF_ARRAY = 2**14, 2**16
"""The least and the greatest number of values of a single array that are counted."""

LARGEST = float(np.finfo(np.float32).max)
"""The largest number of float32."""


def of_each(total: int, arrays: int, least: int, most: int) -> int:
    """How many numbers of each array are counted, for about ``total`` numbers over all arrays."""
    return min(max(total // max(arrays, 1), least), most)


def thinning(shape: Sequence[int], wanted: int) -> int:
    """The step with which the numbers of an array are counted, so that they are at most ``wanted``.

    The step has no factor in common with any dimension, so that all rows and columns are sampled.
    """
    step = -(-math.prod(shape) // wanted)
    while step > 1 and any(math.gcd(step, length) > 1 for length in shape):
        step += 1
    return max(step, 1)


class Histogram:
    """Counts of a stream of numbers in equal bins around zero, with its exact extremes.

    In large arrays, only every k-th number is counted.

    Bin ``i`` holds ``[(i - BINS) * width, (i - BINS + 1) * width)``. Zero is a bin's edge. When a number falls
    outside, the width doubles and pairs of neighboring bins merge, which loses no count; so the counts are those of a
    single pass with the final width.

    Args:
        expected: The expected number of arrays.
    """

    def __init__(self, expected: int = 1) -> None:
        self._sampled = of_each(SAMPLED, expected, LEAST_OF_ARRAY, MOST_OF_ARRAY)
        self.counts = np.zeros(2 * BINS, np.int64)
        self.width = 0.0
        self.low = math.inf
        self.high = -math.inf
        self.total = 0
        self.sum = 0.0
        self.sum_of_squares = 0.0
        self.not_finite = 0
        """The number of values that were NaN or infinite, which no other field counts."""
        self.holds_nan = False
        """Whether some values were NaN, which no integer represents."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing finite was seen."""
        return self.total == 0

    @property
    def edges(self) -> np.ndarray:
        """The ``2 * BINS + 1`` borders of the bins."""
        return (np.arange(2 * BINS + 1) - BINS) * self.width

    @property
    def centers(self) -> np.ndarray:
        """The middle of every bin."""
        return (np.arange(2 * BINS) - BINS + 0.5) * self.width

    def update(self, array: np.ndarray) -> None:
        """Count the numbers of ``array``, of any shape and float type."""
        flat = np.ascontiguousarray(array, np.float32).reshape(-1)
        if not flat.size:
            return None
        low, high = float(flat.min()), float(flat.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            finite = np.isfinite(flat)
            self.not_finite += flat.size - int(finite.sum())
            self.holds_nan |= math.isnan(low)
            return self.update(flat[finite])
        self.low, self.high = min(self.low, low), max(self.high, high)
        flat = np.ascontiguousarray(flat[:: thinning(array.shape, self._sampled)])
        self.total += flat.size
        self.sum += float(flat.sum(dtype=np.float64))
        self.sum_of_squares += float(np.dot(flat, flat))
        self._cover(max(-low, high))
        self.counts += np.bincount(self._places(flat), minlength=2 * BINS)
        return None

    def update_counted(self, numbers: np.ndarray, counts: np.ndarray, low: float, high: float) -> None:
        """Count each of ``numbers`` as often as ``counts`` says.

        Args:
            numbers: The numbers, such as the middles of another histogram's bins.
            counts: How often each number is counted.
            low: The exact lowest number, which ``numbers`` only approximate.
            high: The exact highest number.
        """
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.total += int(counts.sum())
        self.sum += float(np.sum(numbers * counts))
        self.sum_of_squares += float(np.sum(numbers**2 * counts))
        self._cover(max(-low, high))
        places = self._places(numbers.astype(np.float32).reshape(-1))
        self.counts += np.bincount(places, counts.reshape(-1), 2 * BINS).astype(np.int64)

    def _places(self, flat: np.ndarray) -> np.ndarray:
        """The bins of float32 numbers."""
        if self.width == 0.0:
            return np.full(flat.shape, BINS, np.int32)
        factor = 1 / self.width  # a power of two: float32 holds the product, unless it does not hold the factor
        scaled = flat * (np.float32(factor) if factor <= LARGEST else np.float64(factor))
        places: np.ndarray = np.floor(scaled).astype(np.int32)
        places += BINS
        return np.clip(places, 0, 2 * BINS - 1, out=places)

    def _cover(self, magnitude: float) -> None:
        if magnitude <= self.width * BINS:
            return
        if self.width == 0.0:
            self.width = 2.0 ** math.ceil(math.log2(magnitude)) / BINS  # a power of two: exact under doubling
        while magnitude > self.width * BINS:
            merged = self.counts.reshape(-1, 2).sum(1)
            self.counts[:] = 0
            self.counts[BINS // 2 : BINS // 2 + BINS] = merged
            self.width *= 2
