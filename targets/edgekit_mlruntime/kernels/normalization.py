"""Normalization layers."""

from __future__ import annotations

import numpy as np

from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


@kernel("batch_norm")
def batch_norm(
    call: Call,
    x: Array,
    mean: Array,
    variance: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    epsilon: float = 1e-5,
) -> Array:
    """``gamma * (x - mean) / sqrt(variance + epsilon) + beta`` for each channel of ``x`` [n, C, *D]."""
    folded = call.cache.get("folded")
    if folded is None:
        scale = 1 / np.sqrt(variance.astype(np.float64) + epsilon)
        if gamma is not None:
            scale *= gamma
        shift = -mean * scale if beta is None else beta - mean * scale
        folded = (scale.astype(np.float32), shift.astype(np.float32))
        if {"mean", "variance", "gamma", "beta", "epsilon"} & call.inputs.keys() <= call.constant_inputs:
            call.cache["folded"] = folded
    scale, shift = (_per_channel(values, x.ndim) for values in folded)
    result = x * scale
    result += shift
    return result


@kernel("instance_norm")
def instance_norm(
    call: Call, x: Array, gamma: Array | None = None, beta: Array | None = None, epsilon: float = 1e-5
) -> Array:
    """Standardize each channel of each image of ``x`` [n, C, *D] separately, then ``* gamma + beta``."""
    result = _standardize(x, tuple(range(2, x.ndim)), epsilon)
    if gamma is not None:
        result *= _per_channel(gamma, x.ndim)
    if beta is not None:
        result += _per_channel(beta, x.ndim)
    return result


@kernel("layer_norm")
def layer_norm(
    call: Call,
    x: Array,
    axes: Ints | None = None,
    gamma: Array | None = None,
    beta: Array | None = None,
    epsilon: float = 1e-5,
) -> Array:
    """Standardize over ``axes`` (default: all), then ``* gamma + beta``, both of shape ``x.shape[axes]``."""
    normalized = sorted(axis % x.ndim for axis in (range(x.ndim) if axes is None else axes))
    parameter_shape = [size if axis in normalized else 1 for axis, size in enumerate(x.shape)]
    result = _standardize(x, tuple(normalized), epsilon)
    if gamma is not None:
        result *= gamma.reshape(parameter_shape)
    if beta is not None:
        result += beta.reshape(parameter_shape)
    return result


@kernel("l2_norm")
def l2_norm(call: Call, x: Array, epsilon: float = 1e-6) -> Array:
    """``x / sqrt(sum(x ** 2) + epsilon)``, the sum over the last three axes."""
    squares = np.square(x).sum(axis=(-3, -2, -1), keepdims=True)
    return np.asarray(x / np.sqrt(squares + np.float32(epsilon)))


@kernel("local_response_norm")
def local_response_norm(
    call: Call, x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Array:
    """``x / (k + alpha / size * S) ** beta`` of ``x`` [n, C, *D].

    ``S`` is the sum of squares over ``size`` neighboring channels: ``size // 2`` before, ``(size - 1) // 2`` after.
    """
    channels = x.shape[1]
    around = ((0, 0), (size // 2, (size - 1) // 2), *((0, 0) for _ in x.shape[2:]))
    squares = np.pad(np.square(x), around)
    sums = squares[:, :channels].copy()
    for offset in range(1, size):
        sums += squares[:, offset : offset + channels]
    return np.asarray(x / (np.float32(k) + np.float32(alpha / size) * sums) ** np.float32(beta))


def _standardize(x: Array, axes: Ints, epsilon: float) -> Array:
    """``(x - mean) / sqrt(variance + epsilon)`` over the axes, as a new array."""
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    centred /= np.sqrt(variance + np.float32(epsilon))
    return np.asarray(centred)


def _per_channel(values: Array, rank: int) -> Array:
    """Shape one value per channel so that it broadcasts over [n, C, *D]."""
    return values.reshape(-1, *(1 for _ in range(rank - 2)))
