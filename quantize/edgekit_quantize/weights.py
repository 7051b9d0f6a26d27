"""Weights as integers: per channel, per tensor or block-wise, symmetric around zero."""

from __future__ import annotations

import numpy as np

from edgekit_quantize.qparams import TINY, IntegerType, QParams


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
    magnitude = np.abs(weights.astype(np.float32, copy=False))
    if axis is None:
        largest = np.max(magnitude, initial=0.0)
    elif block:
        largest = _block_max(magnitude, axis, block)
    else:
        largest = magnitude.max(axis=tuple(i for i in range(weights.ndim) if i != axis), initial=0.0)
    scale = np.asarray(largest / dtype.high, np.float32)
    scale = np.where(scale > TINY, scale, np.float32(1.0)).astype(np.float32)
    return QParams(scale, np.zeros(scale.shape, np.int32), dtype, axis, block)


def _block_max(magnitude: np.ndarray, axis: int, block: int) -> np.ndarray:
    length = magnitude.shape[axis]
    blocks = -(-length // block)
    padding = [(0, 0)] * magnitude.ndim
    padding[axis] = (0, blocks * block - length)
    shape = (*magnitude.shape[:axis], blocks, block, *magnitude.shape[axis + 1 :])
    largest: np.ndarray = np.pad(magnitude, padding).reshape(shape).max(axis=axis + 1)
    return largest
