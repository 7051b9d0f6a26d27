"""ConvInteger, MatMulInteger, QLinearConv and QLinearMatMul."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.exactness import EXACT
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value, computed, constant
from edgekit_mil.ops.standard.convolution import conv, kernel_sizes, with_holes
from edgekit_mil.support.exact_products import centred, exact_product, largest_sum
from edgekit_mil.support.linear_quantization import LIMITS, Granularity, compressed, dequantized, quantized
from edgekit_mil.support.movement import along_channels
from edgekit_mil.support.windows import Windows, flat


@lowering("ConvInteger", versions=[10], note="1 to 3 spatial dimensions")
def conv_integer(
    ctx: Context,
    x: Value,
    w: Value,
    x_zero_point: Value | None = None,
    w_zero_point: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """Convolution of 8-bit integers minus their zero points, in int32; padding is the zero point."""
    windows = Windows.over(kernel_sizes(w, kernel_shape), strides, dilations)
    result = integer_conv(
        ctx, x, x_zero_point, w, w_zero_point, windows, group, flat(windows.padding(x, auto_pad, pads))
    )
    return computed(result, ir.DataType.INT32)


@lowering("MatMulInteger", versions=[10])
def matmul_integer(
    ctx: Context, a: Value, b: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None
) -> Value:
    """Product of matrices of 8-bit integers minus their zero points, in int32."""
    return computed(integer_matmul(ctx, a, a_zero_point, b, b_zero_point), ir.DataType.INT32)


@lowering("QLinearConv", versions=[10], note="1 to 3 spatial dimensions")
def qlinear_conv(
    ctx: Context,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    w: Value,
    w_scale: Value,
    w_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
    b: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """Convolution of quantized tensors with a quantized result; b is int32 in units of ``x_scale * w_scale``.

    With constant weights and scales it becomes a quantized convolution as Core ML knows it, a convolution of real
    numbers between ``dequantize`` and ``quantize``; otherwise integers are multiplied.
    """
    given = (x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, b)
    if all(value is None or value.is_constant for value in given):
        bias = None if b is None else _real_bias(b, x_scale, w_scale)
        result = conv(
            ctx,
            real(ctx, x, x_scale, x_zero_point, 1),
            real(ctx, w, w_scale, w_zero_point, 0),
            bias,
            auto_pad=auto_pad,
            dilations=dilations,
            group=group,
            kernel_shape=kernel_shape,
            pads=pads,
            strides=strides,
        )
        return levels(ctx, result, y_scale, y_zero_point)
    windows = Windows.over(kernel_sizes(w, kernel_shape), strides, dilations)
    total = integer_conv(
        ctx, x, x_zero_point, w, w_zero_point, windows, group, flat(windows.padding(x, auto_pad, pads))
    )
    if b is not None:
        total = mb.add(x=total, y=along_channels(b, total.rank))
    factor = scale_ratio(x_scale, along_axis(w_scale, 1, total.rank), y_scale)
    return requantized(total, factor, y_zero_point)


@lowering("QLinearMatMul", versions=[10, 21])
def qlinear_matmul(
    ctx: Context,
    a: Value,
    a_scale: Value,
    a_zero_point: Value,
    b: Value,
    b_scale: Value,
    b_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
) -> Value:
    """Product of quantized matrices with a quantized result; see :func:`qlinear_conv`."""
    per_tensor = all(int(np.prod(scale.static_shape)) == 1 for scale in (a_scale, a_zero_point))
    given = (a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)
    if per_tensor and b.rank == 2 and all(value.is_constant for value in given):
        product = mb.matmul(x=real(ctx, a, a_scale, a_zero_point, 0).var, y=real(ctx, b, b_scale, b_zero_point, 1).var)
        return levels(ctx, product, y_scale, y_zero_point)
    total = integer_matmul(ctx, a, a_zero_point, b, b_zero_point)
    factor = scale_ratio(along_axis(a_scale, -2, total.rank), along_axis(b_scale, -1, total.rank), y_scale)
    return requantized(total, factor, y_zero_point)


def real(ctx: Context, x: Value, scale: Value, zero_point: Value, axis: int) -> Value:
    """The real numbers that a quantized tensor represents; constants stay compressed."""
    granularity = Granularity.of(x, scale, axis, 0)
    if x.is_constant:
        return compressed(ctx, x, scale, zero_point, granularity, scale.dtype)
    return dequantized(x, scale, zero_point, granularity, scale.dtype)


def levels(ctx: Context, result: Var, scale: Value, zero_point: Value) -> Value:
    """Quantizes a result with one scale."""
    value = computed(result, scale.dtype)
    return quantized(ctx, value, scale, zero_point, Granularity.of(value, scale, 0, 0))


def _real_bias(b: Value, x_scale: Value, w_scale: Value) -> Value:
    """A constant bias in real numbers."""
    step = np.asarray(x_scale.require_constant("x_scale")) * np.asarray(w_scale.require_constant("w_scale"))
    return constant((b.require_constant("B") * step).astype(np.float32).reshape(-1))


def integer_conv(
    ctx: Context,
    x: Value,
    x_zero_point: Value | None,
    w: Value,
    w_zero_point: Value | None,
    windows: Windows,
    group: int,
    pad: list[int],
) -> Var:
    """The convolution in int32."""
    weights = centred(ctx, w, w_zero_point, 0)
    kernel, dilations = weights.var, windows.dilations
    if not weights.is_constant and windows.is_dilated:
        kernel, dilations = with_holes(weights, dilations), (1,) * len(dilations)

    def multiply(left: Var) -> Var:
        return mb.conv(
            x=left,
            weight=kernel,
            strides=list(windows.strides),
            pad_type="custom",
            pad=pad,
            dilations=list(dilations),
            groups=group,
            name=EXACT,
        )

    return exact_product(centred(ctx, x, x_zero_point, 1).var, multiply, largest_sum(weights, range(1, w.rank)))


def integer_matmul(ctx: Context, a: Value, a_zero_point: Value | None, b: Value, b_zero_point: Value | None) -> Var:
    """The product in int32, with vectors as in numpy.matmul."""
    vectors = [axis for axis, value in ((-2, a), (-1, b)) if value.rank == 1]
    if len(vectors) > 1 or not a.rank or not b.rank:
        raise Unsupported(f"needs a matrix, found ranks {a.rank} and {b.rank}")
    left, right = centred(ctx, a, a_zero_point, -2), centred(ctx, b, b_zero_point, -1)
    rows = mb.expand_dims(x=left.var, axes=[0]) if a.rank == 1 else left.var
    factor = mb.expand_dims(x=right.var, axes=[1]) if b.rank == 1 else right.var
    product = exact_product(
        rows, lambda digit: mb.matmul(x=digit, y=factor, name=EXACT), largest_sum(right, [max(b.rank - 2, 0)])
    )
    return mb.squeeze(x=product, axes=vectors) if vectors else product


def along_axis(scale: Value, axis: int, rank: int) -> Value:
    """A scalar, or a vector shaped to broadcast along an axis of a tensor of some rank."""
    if int(np.prod(scale.static_shape)) == 1:
        shape = [1] * rank
    elif scale.rank == 1:
        shape = [-1 if position == axis % rank else 1 for position in range(rank)]
    else:
        return scale
    if scale.constant is not None:
        return Value(scale.dtype, constant=scale.constant.reshape(shape))
    return computed(mb.reshape(x=scale.var, shape=shape), scale.dtype)


def scale_ratio(left: Value, right: Value, result: Value) -> Var | np.ndarray:
    """``left * right / result``, a constant if all three are constant."""
    if left.constant is not None and right.constant is not None and result.constant is not None:
        ratio = np.asarray(left.constant, np.float32) * np.asarray(right.constant, np.float32)
        return ratio / np.asarray(result.constant, np.float32)
    return mb.real_div(x=mb.mul(x=left.var, y=right.var), y=result.var)


def requantized(total: Var, factor: Var | np.ndarray, zero_point: Value) -> Value:
    """``saturate(round(total * factor) + zero_point)`` in the zero point's type."""
    low, high = LIMITS[zero_point.dtype]
    scaled = mb.mul(x=mb.cast(x=total, dtype="fp32"), y=factor, name=EXACT)
    steps = mb.round(x=mb.clip(x=scaled, alpha=2.0 * (low - high), beta=2.0 * (high - low)))
    shifted = mb.add(x=mb.cast(x=steps, dtype="int32"), y=zero_point.var)
    return computed(mb.minimum(x=mb.maximum(x=shifted, y=low), y=high), zero_point.dtype)
