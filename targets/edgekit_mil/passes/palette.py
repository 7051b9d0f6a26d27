"""Finds few values that represent many: one-dimensional clustering of weights."""

from __future__ import annotations

import math

import numpy as np

MOST_ROUNDS = 100


def palette(weights: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns values that represent the weights with little squared error, and the index of each weight's value.

    Lloyd's algorithm on sorted numbers: a round costs a binary search for each boundary between two clusters. It starts
    where the quantization of a known density is best, with levels as dense as the cube root of the density (P. F.
    Panter and W. Dite, "Quantization distortion in pulse-count modulation with nonuniform spacing of levels", 1951).
    Nothing is random.

    Args:
        weights: Finite floats of any shape.
        count: How many values there may be.

    Returns:
        ``count`` values in float64, ascending, the last one repeated if fewer are enough; and indices in the weights'
        shape (``uint8`` up to 256 values).
    """
    flat = weights.astype(np.float64).reshape(-1)
    ordered = np.sort(flat)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    levels = _first_levels(ordered, count)
    for _ in range(MOST_ROUNDS):
        places = np.searchsorted(ordered, (levels[1:] + levels[:-1]) / 2)
        edges = np.unique(np.concatenate([[0], places, [len(ordered)]]))
        moved = (sums[edges[1:]] - sums[edges[:-1]]) / np.diff(edges)
        if len(moved) == len(levels) and np.array_equal(moved, levels):
            break
        levels = moved
    indices = np.searchsorted((levels[1:] + levels[:-1]) / 2, flat).reshape(weights.shape)
    levels = np.concatenate([levels, np.full(count - len(levels), levels[-1])])
    return levels, indices.astype(np.min_scalar_type(count - 1))


def _first_levels(ordered: np.ndarray, count: int) -> np.ndarray:
    distinct = np.unique(ordered)
    if len(distinct) <= count:
        return distinct
    bins = 2 * math.isqrt(len(ordered))  # neither so fine that chance decides, nor so coarse that the shape is lost
    occurrences, edges = np.histogram(ordered, max(bins, count))
    reached = np.cumsum(np.cbrt(occurrences))
    wanted = (np.arange(count) + 0.5) / count * reached[-1]
    return np.unique(np.interp(wanted, reached, edges[1:]))
