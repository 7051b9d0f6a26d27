"""QuantizeLinear and DequantizeLinear: 8-bit values stay 8-bit values in the program, weights stay compressed."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import HIGHEST_RANK, Unsupported, Value
from edgekit_mil.support.high_ranks import around, of_shape
from edgekit_mil.support.linear_quantization import Granularity, compressed, dequantized, quantized, zero_point_or_zero

QUANTIZED_TYPES = frozenset(
    {ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT4, ir.DataType.UINT4}
)


@lowering("QuantizeLinear", versions=[10, 13, 19, 21, 23, 24, 25, 28], note="to integers of 4 to 16 bits")
def quantize_linear(
    ctx: Context,
    x: Value,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Value:
    """``saturate(round(x / y_scale) + y_zero_point)``, ties to the even integer."""
    if y_zero_point is not None:
        dtype = y_zero_point.dtype
    else:
        dtype = ir.DataType(output_dtype) if output_dtype else ir.DataType.UINT8
    if dtype not in QUANTIZED_TYPES:
        raise Unsupported(f"quantizes to {dtype.name.lower()}, which ML Programs do not have")
    if precision not in (0, onnx.TensorProto.FLOAT):
        raise Unsupported(f"divides in {ir.DataType(precision).name.lower()}", "divide in float")
    whole, (x, axis) = x, _of_low_rank(x, axis, block_size)
    granularity = Granularity.of(x, y_scale, axis, block_size)
    found = quantized(ctx, x, y_scale, zero_point_or_zero(y_zero_point, y_scale, dtype), granularity)
    return found if whole.rank <= HIGHEST_RANK else of_shape(found, whole.shape, whole)


@lowering("DequantizeLinear", versions=[10, 13, 19, 21, 23, 24, 25, 28], note="of integers of 4 to 32 bits")
def dequantize_linear(
    ctx: Context,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    """``(x - x_zero_point) * x_scale``; a constant keeps its 4 or 8 bits and is decompressed when the model loads."""
    if x.dtype not in QUANTIZED_TYPES | {ir.DataType.INT32}:
        raise Unsupported(f"dequantizes {x.dtype.name.lower()}, which ML Programs do not have")
    dtype = ir.DataType(output_dtype) if output_dtype else x_scale.dtype
    zero_point = zero_point_or_zero(x_zero_point, x_scale, x.dtype)
    if x.is_constant and x_scale.is_constant and zero_point.is_constant:
        return compressed(ctx, x, x_scale, zero_point, Granularity.of(x, x_scale, axis, block_size), dtype)
    whole, (x, axis) = x, _of_low_rank(x, axis, block_size)
    found = dequantized(x, x_scale, zero_point, Granularity.of(x, x_scale, axis, block_size), dtype)
    return found if whole.rank <= HIGHEST_RANK else of_shape(found, whole.shape, whole)


def _of_low_rank(x: Value, axis: int, block_size: int) -> tuple[Value, int]:
    """Merges the dimensions before and after the axis of the scales if the tensor's rank is too high."""
    return (x, axis) if x.rank <= HIGHEST_RANK or block_size else (around(x, axis % x.rank), 1)
