"""Activation functions."""

from __future__ import annotations

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.ops.elementwise import clamped, register_unary
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor

_GELU = {"EXACT": "none", "TANH_APPROXIMATION": "tanh", "SIGMOID_APPROXIMATION": "sigmoid"}


def _along_channels(b: Builder, values: Tensor, x: Tensor) -> Tensor:
    """A vector over the channels of ``x``, shaped to broadcast along axis 1."""
    if values.rank == 1 and values.shape != (1,):
        return b.reshape(values, [-1, *(1,) * (x.rank - 2)])
    return b.reshape(values, [])


for _name in ("relu", "sigmoid", "silu"):
    register_unary(_name, _name)


@lowering("relu6")
def relu6(b: Builder, call: Call, x: Tensor) -> Tensor:
    """``min(max(x, 0), 6)``."""
    return clamped(b, x, 0, 6)


@lowering("leaky_relu")
def leaky_relu(b: Builder, call: Call, x: Tensor, alpha: float) -> Tensor:
    """``x`` where ``x >= 0``, else ``alpha * x``."""
    return _leaky(b, x, b.like(alpha, x))


def _leaky(b: Builder, x: Tensor, alpha: Tensor) -> Tensor:
    return b.select(b.less(x, 0), b.mul(x, alpha), x)


@lowering("clamped_relu")
def clamped_relu(b: Builder, call: Call, x: Tensor, alpha: float, beta: float) -> Tensor:
    """``min(x, beta)`` where ``x >= 0``, else ``min(alpha * x, beta)``."""
    return b.minimum(_leaky(b, x, b.like(alpha, x)), beta)


@lowering("thresholded_relu")
def thresholded_relu(b: Builder, call: Call, x: Tensor, alpha: float) -> Tensor:
    """``x`` where ``x >= alpha``, else 0."""
    return b.select(b.less(x, alpha), 0, x)


@lowering("prelu")
def prelu(b: Builder, call: Call, x: Tensor, alpha: Tensor) -> Tensor:
    """``x`` where ``x > 0``, else ``alpha * x`` with an ``alpha`` for each channel (axis 1)."""
    return _leaky(b, x, _along_channels(b, b.cast(alpha, x.dtype), x))


@lowering("elu")
def elu(b: Builder, call: Call, x: Tensor, alpha: float) -> Tensor:
    """``x`` where ``x > 0``, else ``alpha * (exp(x) - 1)``."""
    below = b.sub(b.op("exp", b.minimum(x, 0)), 1)
    return b.select(b.greater(x, 0), x, b.mul(below, alpha))


@lowering("gelu")
def gelu(b: Builder, call: Call, x: Tensor, mode: str = "EXACT") -> Tensor:
    """Gaussian error linear unit, exact or by one of two approximations."""
    if mode not in _GELU:
        raise CannotTranslate(f"there is no mode {mode}")
    return b.gelu(x, _GELU[mode])


@lowering("linear_activation")
def linear_activation(b: Builder, call: Call, x: Tensor, alpha: float, beta: float = 0.0) -> Tensor:
    """``alpha * x + beta``."""
    return b.add(b.mul(x, alpha), beta)


@lowering("scaled_tanh")
def scaled_tanh(b: Builder, call: Call, x: Tensor, alpha: float, beta: float) -> Tensor:
    """``alpha * tanh(beta * x)``."""
    return b.mul(b.op("tanh", b.mul(x, beta)), alpha)


@lowering("sigmoid_hard")
def sigmoid_hard(b: Builder, call: Call, x: Tensor, alpha: float, beta: float) -> Tensor:
    """``min(max(alpha * x + beta, 0), 1)``."""
    return clamped(b, b.add(b.mul(x, alpha), beta), 0, 1)


def _softplus(b: Builder, x: Tensor) -> Tensor:
    """``log(1 + exp(x))``, written so that exp cannot overflow."""
    small = b.op("exp", b.negative(b.op("abs_", x)))
    return b.add(b.op("log", b.add(small, 1)), b.op("relu", x))


@lowering("softplus")
def softplus(b: Builder, call: Call, x: Tensor) -> Tensor:
    """``log(1 + exp(x))``."""
    return _softplus(b, b.wide(x))


@lowering("softplus_parametric")
def softplus_parametric(b: Builder, call: Call, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """``alpha * log(1 + exp(beta * x))`` with an ``alpha`` and a ``beta`` for each channel (axis 1)."""
    alpha, beta = (_along_channels(b, b.cast(values, x.dtype), x) for values in (alpha, beta))
    return b.mul(_softplus(b, b.mul(x, beta)), alpha)


@lowering("softsign")
def softsign(b: Builder, call: Call, x: Tensor) -> Tensor:
    """``x / (1 + |x|)``."""
    return b.div(x, b.add(b.op("abs_", x), 1))


@lowering("softmax")
def softmax(b: Builder, call: Call, x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x) / sum(exp(x))`` along an axis."""
    return normalized_exponentials(b, x, axis)


def normalized_exponentials(b: Builder, x: Tensor, axis: int) -> Tensor:
    """Softmax along an axis."""
    return b.op("softmax", x, np.array(axis % max(x.rank, 1), np.int32))
