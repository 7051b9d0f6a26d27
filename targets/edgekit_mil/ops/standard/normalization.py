"""Normalization by statistics of the sample itself: of instances, groups of channels, layers, neighboring channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import HIGHEST_RANK, Unsupported, Value, computed
from edgekit_mil.ops.standard.pooling import padded_along, taps
from edgekit_mil.support.high_ranks import along_axis, of_shape
from edgekit_mil.support.movement import along_channels, normalized_axis
from edgekit_mil.support.runtime_shapes import is_number
from edgekit_mil.support.windows import Windows

MVN_EPSILON = 1e-9
"""Number that ONNX's definition of MeanVarianceNormalization adds to the standard deviation."""


@lowering("InstanceNormalization", versions=[6, 22])
def instance_normalization(ctx: Context, x: Value, scale: Value, b: Value, *, epsilon: float = 1e-5) -> Var | Value:
    """Each channel of each sample with its own mean and variance; scale and b are [C]."""
    size, channels, *spatial = x.shape
    if x.rank > HIGHEST_RANK:
        merged = of_shape(x, [size, channels, math.prod(spatial)], x)
        result = instance_normalization(ctx, merged, scale, b, epsilon=epsilon)
        return of_shape(result if isinstance(result, Value) else computed(result, x.dtype), x.shape, x)
    data = x.var if x.rank in (3, 4) else of_shape(x, [size, channels, math.prod(spatial)], x).var
    if scale.is_constant and b.is_constant:
        result = mb.instance_norm(x=data, gamma=scale.operand, beta=b.operand, epsilon=epsilon)
    else:
        result = mb.instance_norm(x=data, epsilon=epsilon)
        result = mb.mul(x=result, y=along_channels(scale, result.rank))
        result = mb.add(x=result, y=along_channels(b, result.rank))
    return result if x.rank in (3, 4) else of_shape(computed(result, x.dtype), x.shape, x)


@lowering("GroupNormalization", versions=[18, 21])
def group_normalization(
    ctx: Context,
    x: Value,
    scale: Value,
    b: Value,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> Var:
    """Each group of channels with its own mean and variance; scale and b are [groups] in version 18, else [C]."""
    together = math.prod([*x.static_sizes([1]), *x.shape[2:]])
    members = together // num_groups if is_number(together) else together / num_groups
    grouped = of_shape(x, [x.shape[0], num_groups, members], x)
    result = mb.instance_norm(x=grouped.var, epsilon=epsilon)
    if ctx.version >= 21:
        result = of_shape(computed(result, x.dtype), x.shape, x).var
    result = mb.mul(x=result, y=along_channels(scale, result.rank))
    result = mb.add(x=result, y=along_channels(b, result.rank))
    return result if ctx.version >= 21 else of_shape(computed(result, x.dtype), x.shape, x).var


@lowering("LayerNormalization", versions=[1, 17])
def layer_normalization(
    ctx: Context,
    x: Value,
    scale: Value,
    b: Value | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Var | Value | None, ...]:
    """Normalizes over the axes from ``axis`` on; scale and b broadcast to x. Returns mean and 1 / deviation, too."""
    first = normalized_axis(axis, x.rank)
    result = layer_norm(x, scale, b, first, epsilon)
    if not any(ctx.output_used[1:]):
        return (result,)
    axes = list(range(first, x.rank))
    mean = mb.reduce_mean(x=x.var, axes=axes, keep_dims=True)
    spread = mb.reduce_mean(x=mb.square(x=mb.sub(x=x.var, y=mean)), axes=axes, keep_dims=True)
    return result, computed(mean, ir.DataType.FLOAT), computed(mb.rsqrt(x=spread, epsilon=epsilon), ir.DataType.FLOAT)


@lowering("RMSNormalization", versions=[23])
def rms_normalization(
    ctx: Context, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Var:
    """``x / sqrt(mean(x ** 2) + epsilon) * scale``, the mean over the axes from ``axis`` on."""
    return rms_norm(x.var, scale.var, list(range(normalized_axis(axis, x.rank), x.rank)), epsilon)


@lowering("LpNormalization", versions=[1, 22])
def lp_normalization(ctx: Context, x: Value, *, axis: int = -1, p: int = 2) -> Value:
    """``x / norm`` along an axis; zeros stay zeros where the norm is 0."""
    reduce = {1: mb.reduce_l1_norm, 2: mb.reduce_l2_norm}.get(p)
    if reduce is None:
        raise Unsupported(f"p is {p}, defined are 1 and 2")

    def scaled(x: Value, axis: int) -> list[Value]:
        norm = reduce(x=x.var, axes=[axis], keep_dims=True)
        return [computed(mb.real_div(x=x.var, y=mb.select(cond=mb.equal(x=norm, y=0.0), a=1.0, b=norm)), x.dtype)]

    (result,) = along_axis(x, normalized_axis(axis, x.rank), scaled)
    return result


@lowering("LRN", versions=[1, 13])
def local_response_normalization(
    ctx: Context, x: Value, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Var:
    """``x / (bias + alpha / size * sum(x ** 2)) ** beta``, the sum over ``size`` channels around each.

    If ``size`` is even, one more of the channels is after than before.
    """
    before, behind = (size - 1) // 2, size // 2
    if x.is_static:
        shape = x.static_shape
        squares = mb.reshape(x=mb.square(x=x.var), shape=[shape[0], 1, shape[1], int(np.prod(shape[2:]))])
        around = mb.avg_pool(
            x=squares, kernel_sizes=[size, 1], strides=[1, 1], pad_type="custom", pad=[before, behind, 0, 0]
        )
        energy = mb.reshape(x=around, shape=shape)
    else:
        channels = Windows((size,), (1,), (1,))
        squares = padded_along(mb.square(x=x.var), 1, (before, behind), 0.0)
        energy = mb.mul(x=reduce(lambda one, other: mb.add(x=one, y=other), taps(squares, 1, channels, 0)), y=1 / size)
    return mb.real_div(x=x.var, y=mb.pow(x=mb.add(x=mb.mul(x=energy, y=alpha), y=bias), y=beta))


@lowering("MeanVarianceNormalization", versions=[9, 13])
def mean_variance_normalization(ctx: Context, x: Value, *, axes: Sequence[int] = (0, 2, 3)) -> Var:
    """``(x - mean) / deviation`` over some axes."""
    centred = mb.sub(x=x.var, y=mb.reduce_mean(x=x.var, axes=list(axes), keep_dims=True))
    spread = mb.reduce_mean(x=mb.square(x=centred), axes=list(axes), keep_dims=True)
    return mb.real_div(x=centred, y=mb.add(x=mb.sqrt(x=spread), y=MVN_EPSILON))


def layer_norm(x: Value, scale: Value | None, b: Value | None, first: int, epsilon: float) -> Var:
    """Normalizes over the axes from ``first`` on; scale and b broadcast to x."""
    axes = list(range(first, x.rank))
    gamma, beta = (_over_axes(value, x.shape[first:]) for value in (scale, b))
    if all(value is None or fitting is not None for value, fitting in ((scale, gamma), (b, beta))):
        return mb.layer_norm(x=x.var, axes=axes, gamma=gamma, beta=beta, epsilon=epsilon)
    result = mb.layer_norm(x=x.var, axes=axes, epsilon=epsilon)
    if scale is not None:
        result = mb.mul(x=result, y=scale.var)
    return result if b is None else mb.add(x=result, y=b.var)


def rms_norm(x: Var, scale: Var | None, axes: Sequence[int], epsilon: float) -> Var:
    """``x / sqrt(mean(x ** 2) + epsilon) * scale``."""
    energy = mb.reduce_mean(x=mb.square(x=x), axes=list(axes), keep_dims=True)
    result = mb.mul(x=x, y=mb.rsqrt(x=energy, epsilon=epsilon))
    return result if scale is None else mb.mul(x=result, y=scale)


def _over_axes(value: Value | None, sizes: Sequence[Any]) -> np.ndarray | None:
    """Broadcasts a constant over the normalized axes; None if it is computed, or varies along other axes."""
    if value is None or not value.is_constant or not all(isinstance(size, int | np.integer) for size in sizes):
        return None
    array = np.asarray(value.operand)
    while array.ndim > len(sizes) and array.shape[0] == 1:
        array = array[0]
    return np.broadcast_to(array, sizes).copy() if array.ndim <= len(sizes) else None
