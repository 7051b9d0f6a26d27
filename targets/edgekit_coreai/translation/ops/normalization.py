"""Normalizations, computed in float32, as Core ML computes their means."""

from __future__ import annotations

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, Ints, lowering
from edgekit_coreai.translation.tensors import Tensor


def _per_channel(b: Builder, values: Tensor, rank: int) -> Tensor:
    """Shape one value per channel so that it broadcasts over [n, C, *D]."""
    return b.reshape(values, [-1, *(1,) * (rank - 2)])


@lowering("batch_norm")
def batch_norm(
    b: Builder,
    call: Call,
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """``gamma * (x - mean) / sqrt(variance + epsilon) + beta`` for each channel of ``x`` [n, C, *D]."""
    arrays = [None if item is None else item.array for item in (mean, variance, gamma, beta)]
    given = [item for item in (mean, variance, gamma, beta) if item is not None]
    if all(item.array is not None for item in given):
        m, v, g, s = (None if item is None else item.astype(np.float64) for item in arrays)
        assert m is not None
        assert v is not None
        factor = (1 if g is None else g) / np.sqrt(v + epsilon)
        shift = (0 if s is None else s) - m * factor
        scale, offset = (b.constant(np.asarray(item, np.float32)) for item in (factor, shift))
    else:
        scale = b.op("rsqrt", b.add(b.wide(variance), epsilon))
        if gamma is not None:
            scale = b.mul(scale, b.wide(gamma))
        offset = b.negative(b.mul(b.wide(mean), scale))
        if beta is not None:
            offset = b.add(offset, b.wide(beta))
    made = b.mul(b.wide(x), _per_channel(b, scale, x.rank))
    return b.add(made, _per_channel(b, offset, x.rank))


def _standardized(b: Builder, x: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """``(x - mean) / sqrt(variance + epsilon)`` over the axes."""
    centred = b.sub(x, b.reduce("reduce_mean", x, axes))
    variance = b.reduce("reduce_mean", b.mul(centred, centred), axes)
    return b.div(centred, b.op("sqrt", b.add(variance, epsilon)))


@lowering("instance_norm")
def instance_norm(
    b: Builder,
    call: Call,
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """Standardize each channel of each image of ``x`` [n, C, *D] separately, then ``* gamma + beta``."""
    result = _standardized(b, b.wide(x), list(range(2, x.rank)), epsilon)
    if gamma is not None:
        result = b.mul(result, _per_channel(b, b.wide(gamma), x.rank))
    if beta is not None:
        result = b.add(result, _per_channel(b, b.wide(beta), x.rank))
    return result


@lowering("layer_norm")
def layer_norm(
    b: Builder,
    call: Call,
    x: Tensor,
    axes: Ints | None = None,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """Standardize over ``axes`` (default: all), then ``* gamma + beta``, both of shape ``x.shape[axes]``."""
    over = sorted(axis % x.rank for axis in (range(x.rank) if axes is None else axes))
    shape = [b.size(x, axis) if axis in over else 1 for axis in range(x.rank)]
    result = _standardized(b, b.wide(x), over, epsilon)
    if gamma is not None:
        result = b.mul(result, b.reshape(b.wide(gamma), shape))
    if beta is not None:
        result = b.add(result, b.reshape(b.wide(beta), shape))
    return result


@lowering("l2_norm")
def l2_norm(b: Builder, call: Call, x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """``x / sqrt(sum(x ** 2) + epsilon)``, the sum over the last three axes."""
    x = b.wide(x)
    total = b.reduce("reduce_sum", b.mul(x, x), [-3, -2, -1])
    return b.div(x, b.op("sqrt", b.add(total, epsilon)))


@lowering("local_response_norm")
def local_response_norm(
    b: Builder, call: Call, x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """``x / (k + alpha / size * S) ** beta`` of ``x`` [n, C, *D].

    ``S`` is the sum of squares over ``size`` neighboring channels: ``size // 2`` before, ``(size - 1) // 2`` after.
    """
    x = b.wide(x)
    widths = [(0, 0), (size // 2, (size - 1) // 2), *((0, 0) for _ in range(x.rank - 2))]
    squares = b.pad(b.mul(x, x), widths)
    channels = x.shape[1]
    assert channels is not None
    total = b.narrow(squares, 1, 0, channels)
    for offset in range(1, size):
        total = b.add(total, b.narrow(squares, 1, offset, offset + channels))
    return b.div(x, b.spread("pow", b.add(b.mul(total, alpha / size), k), b.like(beta, x)))
