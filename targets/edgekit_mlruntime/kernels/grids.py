"""The points at which resizing operations sample an axis, and interpolation between the axis's elements."""

from __future__ import annotations

import numpy as np

from edgekit_mlruntime.program import Array


def sampling_points(mode: str, start: Array, end: Array, count: int) -> Array:
    """Positions at which an interval is sampled, by MIL's ``sampling_mode``.

    The documented formulas of ``resize_bilinear`` are for the interval [0, X - 1]; here X - 1 is ``end - start``.

    Args:
        mode: ``STRICT_ALIGN_CORNERS``, ``ALIGN_CORNERS``, ``DEFAULT``, ``OFFSET_CORNERS`` or ``UNALIGN_CORNERS``.
        start: Positions of the first elements of any number of intervals, float64.
        end: Positions of the intervals' last elements; may be less than ``start``.
        count: Number of points in each interval.

    Returns:
        float64, shape of ``start`` with an axis of ``count`` added.
    """
    first, last = start[..., np.newaxis], end[..., np.newaxis]
    length = last - first
    steps = np.arange(count, dtype=np.float64)
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        points = first + steps * (length / max(count - 1, 1))
        if count == 1 and mode == "ALIGN_CORNERS":
            points = first + length / 2
    elif mode == "DEFAULT":
        points = first + steps * ((length + 1) / count)
    elif mode == "OFFSET_CORNERS":
        points = first + (steps + 0.5) * (np.maximum(length, 1) / count)
    elif mode == "UNALIGN_CORNERS":
        points = first + (steps + 0.5) * ((length + 1) / count) - 0.5
    else:
        raise ValueError(f"sampling_mode {mode!r}")
    return np.asarray(np.clip(points, np.minimum(first, last), np.maximum(first, last)))


def axis_points(mode: str, size: int, count: int) -> Array:
    """Positions at which a whole axis of ``size`` elements is sampled: float64 [count]."""
    return sampling_points(mode, np.array(0.0), np.array(size - 1.0), count)


def interpolate(x: Array, axis: int, points: Array) -> Array:
    """Linear interpolation along an axis.

    Args:
        x: float32.
        axis: The axis.
        points: Positions within ``[0, x.shape[axis] - 1]``, float64 [count].
    """
    lower = points.astype(np.intp)
    upper = np.minimum(lower + 1, x.shape[axis] - 1)
    fraction = (points - lower).astype(np.float32)
    below: Array = x.take(lower, axis=axis)
    if not fraction.any():
        return below
    shape = [1] * x.ndim
    shape[axis] = -1
    difference: Array = x.take(upper, axis=axis)
    difference -= below
    difference *= fraction.reshape(shape)
    difference += below
    return difference
