"""Weights as integers: per channel, per tensor or block-wise, symmetric around zero."""

from __future__ import annotations

import numpy as np

from edgekit_quantize.integers.qparams import TINY, IntegerType, QParams


def symmetric_weights(weights: np.ndarray, dtype: IntegerType, axis: int | None, block: int = 0) -> QParams:
    """Scales from the largest magnitude of each channel (``axis``), of each block along it, or of the whole tensor.

    The type's range is used symmetrically (-127…127 in int8), as the integer kernels of the runtimes expect. A
    channel of zeros gets the scale 1.

    Args:
        weights: Float weights of any rank.
        dtype: The integer type.
        axis: The axis of the output channels, or with ``block`` the axis that is cut into blocks; None per tensor.
        block: How many neighbours along ``axis`` share a scale; 0 for one scale a channel.
    """
    if block and axis is not None:
        whole = weights.shape[axis] // block * block
        before = (slice(None),) * axis
        blocks = weights[(*before, slice(0, whole))].reshape(
            *weights.shape[:axis], -1, block, *weights.shape[axis + 1 :]
        )
        rest = weights[(*before, slice(whole, None))]
        ends = [_magnitude(blocks, axis + 1)]
        if rest.size:
            ends.append(np.expand_dims(_magnitude(rest, axis), axis))
        largest = np.concatenate(ends, axis)
    else:
        largest = _magnitude(weights, None if axis is None else tuple(i for i in range(weights.ndim) if i != axis))
    scale = np.asarray(largest.astype(np.float32) / dtype.high, np.float32)
    scale = np.where(scale > TINY, scale, np.float32(1.0)).astype(np.float32)
    return QParams(scale, np.zeros(scale.shape, np.int32), dtype, axis, block)


def _magnitude(array: np.ndarray, axis: int | tuple[int, ...] | None) -> np.ndarray:
    """The largest magnitude along axes, without an array of all of them."""
    largest: np.ndarray = np.maximum(array.max(axis, initial=0.0), -array.min(axis, initial=0.0))
    return largest
