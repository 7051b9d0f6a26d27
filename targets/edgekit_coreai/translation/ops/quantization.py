"""Quantization and dequantization of activations."""

from __future__ import annotations

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, lowering
from edgekit_coreai.translation.tensors import Tensor


@lowering("quantize", opset=17)
def quantize(
    b: Builder,
    call: Call,
    input: Tensor,  # noqa: A002 - MIL's name of it
    scale: Tensor,
    output_dtype: str,
    zero_point: Tensor | None = None,
    axis: int | None = None,
) -> Tensor:
    """``clip(round(input / scale) + zero_point)`` to int8 or uint8; ``round`` takes ties to the even integer."""
    target = np.dtype(output_dtype)
    scale, offset, place = _parameters(b, input, scale, zero_point, target, axis)
    bias = b.constant(np.zeros(scale.sizes, input.dtype))
    if input.rank == 0:
        made = b.op("quantize", b.expand(input, [0]), scale, offset, bias, place)
        return b.reshape(made, [])
    return b.op("quantize", input, scale, offset, bias, place)


@lowering("dequantize", opset=17)
def dequantize(
    b: Builder,
    call: Call,
    input: Tensor,  # noqa: A002 - MIL's name of it
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int | None = None,
) -> Tensor:
    """``scale * (input - zero_point)``; ``scale`` and ``zero_point`` are scalars, or vectors along ``axis``."""
    scale, offset, place = _parameters(b, input, scale, zero_point, input.dtype, axis)
    bias = b.constant(np.zeros(scale.sizes, scale.dtype))
    if input.rank == 0:
        return b.reshape(b.op("dequantize", b.expand(input, [0]), scale, offset, bias, place), [])
    return b.op("dequantize", input, scale, offset, bias, place)


def _parameters(
    b: Builder,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    dtype: np.dtype,
    axis: int | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Scale, zero point and axis in the form of Apple's operations: scalars for all axes, or vectors along one axis."""
    zero = b.constant(np.zeros((), dtype)) if zero_point is None else b.cast(zero_point, dtype)
    if all(size == 1 for item in (scale, zero) for size in item.shape):
        every = b.constant(np.arange(max(x.rank, 1), dtype=np.int32))
        return b.reshape(scale, []), b.reshape(zero, []), every
    assert axis is not None
    count = b.size(scale if scale.shape not in ((), (1,)) else zero, 0)
    vectors = [b.broadcast(b.reshape(item, [-1]) if item.rank else item, [count]) for item in (scale, zero)]
    return vectors[0], vectors[1], b.constant(np.array(axis % x.rank, np.int32))
