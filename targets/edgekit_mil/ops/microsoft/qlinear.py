"""Operators on quantized tensors that ONNX Runtime adds to the standard: computed with the real numbers in floats.

ONNX Runtime itself computes most of them in this way, or by a table of the 256 results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value, computed
from edgekit_mil.ops.standard import pooling, quantized_products, softmax
from edgekit_mil.ops.standard.quantize_linear import dequantize_linear as standard_dequantize
from edgekit_mil.ops.standard.quantize_linear import quantize_linear as standard_quantize
from edgekit_mil.support.linear_quantization import zero_point_or_zero
from edgekit_mil.support.movement import choose

DOMAIN = "com.microsoft"


@lowering("QuantizeLinear", versions=[1], domain=DOMAIN, note="to integers of 8 and 16 bits")
def quantize_linear(
    ctx: Context, x: Value, y_scale: Value, y_zero_point: Value | None = None, *, axis: int = 1
) -> Value:
    """The standard's operator."""
    result: Value = standard_quantize(ctx, x, y_scale, y_zero_point, axis=axis)
    return result


@lowering("DequantizeLinear", versions=[1], domain=DOMAIN, note="of integers of 8 to 32 bits")
def dequantize_linear(
    ctx: Context, x: Value, x_scale: Value, x_zero_point: Value | None = None, *, axis: int = 1
) -> Value:
    """The standard's operator."""
    result: Value = standard_dequantize(ctx, x, x_scale, x_zero_point, axis=axis)
    return result


@lowering("QLinearAdd", "QLinearMul", versions=[1], domain=DOMAIN)
def binary(
    ctx: Context,
    a: Value,
    a_scale: Value,
    a_zero_point: Value | None,
    b: Value,
    b_scale: Value,
    b_zero_point: Value | None,
    c_scale: Value,
    c_zero_point: Value | None = None,
) -> Value:
    """Sum or product."""
    operate = mb.add if ctx.op_type == "QLinearAdd" else mb.mul
    result = operate(x=real(ctx, a, a_scale, a_zero_point), y=real(ctx, b, b_scale, b_zero_point))
    return stored(ctx, result, c_scale, c_zero_point, a.dtype)


@lowering("QLinearSigmoid", versions=[1], domain=DOMAIN)
def sigmoid(
    ctx: Context,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None = None,
) -> Value:
    """1 / (1 + exp(-x))."""
    result = mb.sigmoid(x=real(ctx, x, x_scale, x_zero_point))
    return stored(ctx, result, y_scale, y_zero_point, x.dtype)


@lowering("QLinearLeakyRelu", versions=[1], domain=DOMAIN)
def leaky_relu(
    ctx: Context,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    alpha: float = 0.01,
) -> Value:
    """``x``, times alpha where it is negative."""
    result = mb.leaky_relu(x=real(ctx, x, x_scale, x_zero_point), alpha=alpha)
    return stored(ctx, result, y_scale, y_zero_point, x.dtype)


@lowering("QLinearSoftmax", versions=[1], domain=DOMAIN)
def normalized_exponentials(
    ctx: Context,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    axis: int = -1,
    opset: int,
) -> Value:
    """Softmax: from opset 13 on along the axis, in older opsets over all axes from ``axis`` on."""
    data = real(ctx, x, x_scale, x_zero_point)
    if opset >= softmax.FIRST_ALONG_ONE_AXIS or axis % x.rank == x.rank - 1:
        result = softmax.softmax(data, axis)
    else:
        shape = x.static_shape
        matrix = mb.reshape(x=data, shape=[int(np.prod(shape[: axis % x.rank])), -1])
        result = mb.reshape(x=softmax.softmax(matrix, 1), shape=shape)
    return stored(ctx, result, y_scale, y_zero_point, x.dtype)


@lowering("QLinearWhere", versions=[1], domain=DOMAIN)
def where(
    ctx: Context,
    condition: Value,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    y: Value,
    y_scale: Value,
    y_zero_point: Value,
    z_scale: Value,
    z_zero_point: Value,
) -> Value:
    """``x`` where the condition holds, else ``y``."""
    chosen = choose(
        condition.var,
        computed(real(ctx, x, x_scale, x_zero_point), ir.DataType.FLOAT),
        computed(real(ctx, y, y_scale, y_zero_point), ir.DataType.FLOAT),
    )
    return stored(ctx, chosen, z_scale, z_zero_point, x.dtype)


@lowering("QLinearConcat", versions=[1], domain=DOMAIN)
def concat(ctx: Context, y_scale: Value, y_zero_point: Value, *inputs: Value, axis: int) -> Value:
    """Concatenates tensors, each given with its scale and its zero point."""
    parts = [real(ctx, *inputs[place : place + 3]) for place in range(0, len(inputs), 3)]
    return stored(ctx, mb.concat(values=parts, axis=axis), y_scale, y_zero_point, y_zero_point.dtype)


@lowering("QLinearConv", versions=[1], domain=DOMAIN, note="1 to 3 spatial dimensions")
def conv(
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
    channels_last: int = 0,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """The standard's operator; with ``channels_last`` x is [n, *D, C], while weights are always [m, C/group, *K]."""

    def convolve(data: Value) -> Var:
        result: Value = quantized_products.qlinear_conv(
            ctx,
            data,
            x_scale,
            x_zero_point,
            w,
            w_scale,
            w_zero_point,
            y_scale,
            y_zero_point,
            b,
            auto_pad=auto_pad,
            dilations=dilations,
            group=group,
            kernel_shape=kernel_shape,
            pads=pads,
            strides=strides,
        )
        return result.var

    return computed(with_channels_second(x, bool(channels_last), convolve), y_zero_point.dtype)


@lowering("QLinearAveragePool", versions=[1], domain=DOMAIN, note="1 to 3 spatial dimensions")
def average_pool(
    ctx: Context,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """Mean of each window."""
    if ceil_mode and count_include_pad:  # ONNX Runtime counts elements beyond the padding here, unlike AveragePool
        raise Unsupported(
            "counts the padding and the elements beyond it (ceil_mode with count_include_pad)",
            "round output sizes down, or count no padding",
        )

    def pool(data: Value) -> Var:
        return pooling.average_pool(
            ctx,
            data,
            kernel_shape=kernel_shape,
            auto_pad=auto_pad,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            pads=pads,
            strides=strides,
        )

    data = computed(real(ctx, x, x_scale, x_zero_point), ir.DataType.FLOAT)
    return stored(ctx, with_channels_second(data, bool(channels_last), pool), y_scale, y_zero_point, x.dtype)


@lowering("QLinearGlobalAveragePool", versions=[1], domain=DOMAIN)
def global_average_pool(
    ctx: Context,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
    *,
    channels_last: int = 0,
) -> Value:
    """Mean over all spatial dimensions."""
    data = computed(real(ctx, x, x_scale, x_zero_point), ir.DataType.FLOAT)
    result = with_channels_second(data, bool(channels_last), lambda value: pooling.global_average_pool(ctx, value))
    return stored(ctx, result, y_scale, y_zero_point, x.dtype)


@lowering("NhwcMaxPool", versions=[1], domain=DOMAIN, note="1 to 3 spatial dimensions")
def max_pool_channels_last(
    ctx: Context,
    x: Value,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """Maximum of each window of x [n, *D, C]."""

    def pool(data: Value) -> Var:
        pooled, _ = pooling.max_pool(
            ctx,
            data,
            kernel_shape=kernel_shape,
            auto_pad=auto_pad,
            ceil_mode=ceil_mode,
            dilations=dilations,
            pads=pads,
            strides=strides,
        )
        return pooled.var

    return computed(with_channels_second(x, True, pool), x.dtype)


def real(ctx: Context, x: Value, scale: Value, zero_point: Value | None = None) -> Var:
    """The real numbers that a quantized tensor represents, in float32."""
    return quantized_products.real(ctx, x, scale, zero_point_or_zero(zero_point, scale, x.dtype), 0).var


def stored(ctx: Context, numbers: Var, scale: Value, zero_point: Value | None, dtype: ir.DataType) -> Value:
    """Quantizes real numbers to a type."""
    return quantized_products.levels(ctx, numbers, scale, zero_point_or_zero(zero_point, scale, dtype))


def with_channels_second(x: Value, channels_last: bool, compute: Callable[[Value], Var]) -> Var:
    """Computes with a tensor as [n, C, *D]; the result has its channels where ``x`` has them."""
    if not channels_last:
        return compute(x)
    spatial = range(1, x.rank - 1)
    moved = mb.transpose(x=x.var, perm=[0, x.rank - 1, *spatial])
    result = compute(computed(moved, x.dtype))
    return mb.transpose(x=result, perm=[0, *(axis + 1 for axis in spatial), 1])
