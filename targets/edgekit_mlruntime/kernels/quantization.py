"""Quantization of activations."""

from __future__ import annotations

import numpy as np

from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel


@kernel("quantize", opset=17)
def quantize(
    call: Call,
    input: Array,  # noqa: A002 - MIL's name of it
    scale: Array,
    output_dtype: str,
    zero_point: Array | None = None,
    axis: int | None = None,
) -> Array:
    """``clip(round(input / scale) + zero_point)`` to int8 or uint8; ``round`` takes ties to the even integer.

    ``scale`` and ``zero_point`` are scalars, or vectors along ``axis``.
    """
    limits = np.iinfo(output_dtype)
    levels = np.asarray(input / along_axis(scale, axis, input.ndim))
    np.rint(levels, out=levels)
    if zero_point is not None:
        levels += along_axis(zero_point, axis, input.ndim)
    np.clip(levels, limits.min, limits.max, out=levels)
    return levels.astype(output_dtype)


@kernel("dequantize", opset=17)
def dequantize(
    call: Call,
    input: Array,  # noqa: A002 - MIL's name of it
    scale: Array,
    zero_point: Array | None = None,
    axis: int | None = None,
) -> Array:
    """``scale * (input - zero_point)``; ``scale`` and ``zero_point`` are scalars, or vectors along ``axis``."""
    levels = input.astype(np.float32)
    if zero_point is not None:
        levels -= along_axis(zero_point, axis, input.ndim)
    levels *= along_axis(scale, axis, input.ndim)
    return levels


def along_axis(values: Array, axis: int | None, rank: int) -> Array:
    """Shape a scalar, or a vector along ``axis``, so that it broadcasts over a tensor of the rank; float32."""
    values = values.astype(np.float32, copy=False)
    if values.size == 1:
        return values.reshape(())
    if axis is None:
        raise ValueError(f"a vector of {values.size} scales or zero points without an axis")
    shape = [1] * rank
    shape[axis] = -1
    return values.reshape(shape)
