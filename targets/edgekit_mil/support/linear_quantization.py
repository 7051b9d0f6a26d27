"""Linear quantization: by Core ML's own operations where it has them, by exact arithmetic elsewhere.

The scale and zero point are given, or follow from the range that a tensor turns out to have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.exactness import EXACT
from edgekit_mil.core.mil import Var, ct, mb, types
from edgekit_mil.core.values import Infeasible, Unsupported, Value, computed

EIGHT_BITS = frozenset({ir.DataType.INT8, ir.DataType.UINT8})
FOUR_BITS = frozenset({ir.DataType.INT4, ir.DataType.UINT4})
LIMITS = {
    ir.DataType.INT4: (-8, 7),
    ir.DataType.UINT4: (0, 15),
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT16: (-32768, 32767),
    ir.DataType.UINT16: (0, 65535),
}
LEAST_COMPRESSED = 64
"""Constants of fewer elements are stored as floats: decompressing them costs more than it saves."""


@dataclass(frozen=True)
class Granularity:
    """What shares a scale: the whole tensor, a slice along an axis, or a block of elements along an axis."""

    shape: tuple[int, ...]
    """Shape of the quantized tensor."""
    axis: int | None
    """The axis along which scales vary; None if the whole tensor has one scale."""
    block: int
    """Number of elements along the axis that share a scale; 0 if the scales are a vector along the axis."""

    @classmethod
    def of(cls, x: Value, scale: Value, axis: int, block_size: int) -> Granularity:
        """The granularity of a node's scale.

        Raises:
            Unsupported: The scale fits neither the tensor nor its blocks, or is not finite.
        """
        if scale.constant is not None and not np.isfinite(scale.constant.astype(np.float32)).all():
            raise Unsupported(
                "a scale is infinite or NaN, and runtimes give different results for it",
                "quantize the model again, leaving out tensors that have infinite values (masks of -inf)",
            )
        if block_size:
            shape = x.static_shape
            axis %= len(shape)
            wanted = [*shape[:axis], -(-shape[axis] // block_size), *shape[axis + 1 :]]
            if list(scale.shape) != wanted:
                raise Unsupported(f"scales of shape {list(scale.shape)}, blocks of {block_size} need {wanted}")
            return cls(shape, axis, block_size)
        if int(np.prod(scale.static_shape)) == 1:
            return cls(tuple(x.shape), None, 0)
        if scale.rank != 1:
            raise Unsupported(f"scales of shape {list(scale.shape)} without blocks")
        return cls(tuple(x.shape), axis % x.rank, 0)

    def spread(self, parameter: np.ndarray) -> np.ndarray:
        """Returns a constant scale or zero point in a shape that broadcasts over the tensor."""
        if self.axis is None:
            return parameter.reshape(())
        if self.block:
            return np.repeat(parameter, self.block, axis=self.axis).take(range(self.shape[self.axis]), self.axis)
        return parameter.reshape([-1 if axis == self.axis else 1 for axis in range(len(self.shape))])

    def spread_operand(self, parameter: Value) -> Var | np.ndarray:
        """Returns a scale or zero point, constant or computed, in its carrier type and in a shape that broadcasts."""
        if parameter.constant is not None:
            carried = np.float32 if parameter.is_float else np.int32
            return self.spread(np.asarray(parameter.constant)).astype(carried)
        if self.axis is None:
            return parameter.var if parameter.rank == 0 else mb.squeeze(x=parameter.var)
        if self.block:
            owners = np.arange(self.shape[self.axis], dtype=np.int32) // self.block
            return mb.gather(x=parameter.var, indices=owners, axis=self.axis)
        shape = [-1 if axis == self.axis else 1 for axis in range(len(self.shape))]
        return mb.reshape(x=parameter.var, shape=shape)


def zero_point_or_zero(zero_point: Value | None, scale: Value, dtype: ir.DataType) -> Value:
    """The zero point; zeros if it is left out.

    Raises:
        Infeasible: There are several zero points, and another number of scales.
    """
    if zero_point is not None:
        if zero_point.is_static and scale.is_static:
            sizes = math.prod(zero_point.static_shape), math.prod(scale.static_shape)
            if sizes[0] not in (1, sizes[1]):
                raise Infeasible(f"has {sizes[0]} zero points for {sizes[1]} scales")
        return zero_point
    return Value(dtype, constant=np.zeros(scale.static_shape, np.int32))


def quantized(ctx: Context, x: Value, scale: Value, zero_point: Value, granularity: Granularity) -> Value:
    """``saturate(round(x / scale) + zero_point)`` in the zero point's type."""
    dtype = zero_point.dtype
    own = scale.is_constant and zero_point.is_constant and not granularity.block and x.is_float and x.rank > 0
    if own and dtype in EIGHT_BITS and ctx.at_least(ct.target.iOS17):
        return computed(
            mb.quantize(
                input=x.var,
                output_dtype=dtype.name.lower(),
                **_parameters(scale, zero_point, dtype, granularity),
            ),
            dtype,
        )
    low, high = LIMITS[dtype]
    source = x.var if x.is_float else mb.cast(x=x.var, dtype="fp32")
    steps = mb.round(x=mb.real_div(x=source, y=granularity.spread_operand(scale)))
    zero = granularity.spread_operand(zero_point)
    zero = zero.astype(np.float32) if isinstance(zero, np.ndarray) else mb.cast(x=zero, dtype="fp32")
    levels = mb.clip(x=mb.add(x=steps, y=zero), alpha=float(low), beta=float(high))
    return computed(mb.cast(x=levels, dtype="int32"), dtype)


def dequantized(x: Value, scale: Value, zero_point: Value, granularity: Granularity, dtype: ir.DataType) -> Value:
    """``(x - zero_point) * scale`` of a computed x."""
    narrow = x.dtype in EIGHT_BITS and x.variable is not None and types.builtin_to_string(x.variable.dtype) != "int32"
    if narrow and scale.is_constant and zero_point.is_constant and not granularity.block and x.rank > 0:
        return computed(mb.dequantize(input=x.variable, **_parameters(scale, zero_point, x.dtype, granularity)), dtype)
    levels = mb.sub(x=x.var, y=granularity.spread_operand(zero_point))
    return computed(mb.mul(x=mb.cast(x=levels, dtype="fp32"), y=granularity.spread_operand(scale)), dtype)


def compressed(
    ctx: Context, x: Value, scale: Value, zero_point: Value, granularity: Granularity, dtype: ir.DataType
) -> Value:
    """Returns ``(x - zero_point) * scale``, held in compressed form if it is large and Core ML has such a form."""
    levels, scales, zeros = (np.asarray(value.require_constant("x")) for value in (x, scale, zero_point))
    wide = levels.astype(np.float32) - granularity.spread(zeros).astype(np.float32)
    values = wide * granularity.spread(scales).astype(np.float32)
    variable = None
    if levels.size >= LEAST_COMPRESSED and x.dtype in EIGHT_BITS | FOUR_BITS:
        variable = _decompression(ctx, x.dtype, levels, scales, zeros, granularity)
    return Value(dtype, constant=values, variable=variable)


def _decompression(
    ctx: Context,
    dtype: ir.DataType,
    levels: np.ndarray,
    scales: np.ndarray,
    zeros: np.ndarray,
    granularity: Granularity,
) -> Var | None:
    """The operation that decompresses a constant when the model loads; None if Core ML has none for it."""
    per_block = bool(granularity.block)
    if not per_block and dtype in EIGHT_BITS:
        stored = np.int8 if dtype is ir.DataType.INT8 else np.uint8
        size = () if granularity.axis is None else (-1,)
        return mb.constexpr_affine_dequantize(
            quantized_data=levels.astype(stored),
            zero_point=zeros.astype(stored).reshape(size) if zeros.any() else stored(0),
            scale=scales.astype(np.float32).reshape(size),
            axis=np.int32(granularity.axis or 0),
        )
    if not ctx.at_least(ct.target.iOS18):
        return None
    if per_block and granularity.shape[granularity.axis or 0] % granularity.block:
        return None
    if per_block:
        shape = scales.shape
    else:
        shape = tuple(size if axis == granularity.axis else 1 for axis, size in enumerate(granularity.shape))
    packed = types.nptype_from_builtin(types.string_to_builtin(dtype.name.lower()))
    return mb.constexpr_blockwise_shift_scale(
        data=levels.astype(np.int8 if dtype in (ir.DataType.INT4, ir.DataType.INT8) else np.uint8).astype(packed),
        scale=scales.astype(np.float32).reshape(shape),
        offset=zeros.astype(np.int32).reshape(shape).astype(packed) if zeros.any() else None,
    )


def _parameters(scale: Value, zero_point: Value, dtype: ir.DataType, granularity: Granularity) -> dict[str, object]:
    """Scale, zero point and axis as MIL's operations take them."""
    size = () if granularity.axis is None else (-1,)
    stored = np.int8 if dtype is ir.DataType.INT8 else np.uint8
    parameters: dict[str, object] = {
        "scale": np.asarray(scale.constant).astype(np.float32).reshape(size),
    }
    zeros = np.asarray(zero_point.constant)
    if zeros.any():
        parameters["zero_point"] = zeros.astype(stored).reshape(size)
    if granularity.axis is not None:
        parameters["axis"] = granularity.axis
    return parameters


STEPS = 255


def dynamically_quantized(x: Var) -> tuple[Var, Var, Var]:
    """Unsigned 8-bit levels of x in int32, the scale and the zero point, scalars in float32 and int32.

    The range is that of x and zero, as in ONNX's DynamicQuantizeLinear. If x is all zeros the scale is 1, as in ONNX
    Runtime: the specification divides by zero in this case.
    """
    axes = list(range(x.rank))
    low = mb.minimum(x=mb.reduce_min(x=x, axes=axes, keep_dims=False), y=0.0) if axes else mb.minimum(x=x, y=0.0)
    high = mb.maximum(x=mb.reduce_max(x=x, axes=axes, keep_dims=False), y=0.0) if axes else mb.maximum(x=x, y=0.0)
    spread = mb.real_div(x=mb.sub(x=high, y=low), y=float(STEPS), name=EXACT)
    scale = mb.select(cond=mb.equal(x=spread, y=0.0), a=np.float32(1), b=spread, name=EXACT)
    zero = _level(mb.real_div(x=mb.sub(x=0.0, y=low), y=scale, name=EXACT), None)
    return _level(mb.real_div(x=x, y=scale, name=EXACT), zero), scale, zero


def dynamically_rounded(x: Var) -> Var:
    """Rounds x to the 8-bit levels of its range; the result is in floats again."""
    levels, scale, zero = dynamically_quantized(x)
    return mb.mul(x=mb.cast(x=mb.sub(x=levels, y=zero), dtype="fp32"), y=scale, name=EXACT)


def _level(steps: Var, zero: Var | None) -> Var:
    """Rounds steps, adds the zero point, and clips to the levels 0 to 255."""
    rounded = mb.cast(x=mb.clip(x=mb.round(x=steps, name=EXACT), alpha=-512.0, beta=512.0), dtype="int32")
    moved = rounded if zero is None else mb.add(x=rounded, y=zero)
    return mb.minimum(x=mb.maximum(x=moved, y=0), y=STEPS)
