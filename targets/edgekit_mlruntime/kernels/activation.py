"""Activation functions."""

from __future__ import annotations

import math

import numpy as np

from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.kernels.elementwise_unary import EXPONENTIAL_COST, clamp, exponential, gauss_error
from edgekit_mlruntime.kernels.onnx_op import run_onnx_op
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel


def _sigmoid(call: Call, x: Array) -> Array:
    """``1 / (1 + exp(-x))``, not as ONNX's operator: ONNX Runtime's is faster, but inaccurate below ``x = -12``."""
    result = exponential(call, np.negative(x))
    np.add(result, 1, out=result)
    np.reciprocal(result, out=result)
    return result


def _affine(x: Array, alpha: float, beta: float) -> Array:
    """A new array of ``alpha * x + beta``."""
    result = np.asarray(np.multiply(x, alpha))
    np.add(result, beta, out=result)
    return result


def _softplus(x: Array) -> Array:
    """``log(1 + exp(x))``, written so that exp cannot overflow."""
    result = np.asarray(np.abs(x))
    np.negative(result, out=result)
    np.exp(result, out=result)
    np.log1p(result, out=result)
    np.add(result, np.maximum(x, 0), out=result)
    return result


def _along_channels(values: Array, x: Array) -> Array:
    """A vector over the channels of ``x``, shaped to broadcast along axis 1."""
    return values.reshape(-1, *(1,) * (x.ndim - 2)) if values.ndim == 1 and values.size > 1 else values.reshape(())


@kernel("relu", raw=True)
def relu(call: Call, x: Array) -> Array:
    """``max(x, 0)``."""
    return clamp(x, 0, math.inf)


@kernel("relu6", raw=True)
def relu6(call: Call, x: Array) -> Array:
    """``min(max(x, 0), 6)``."""
    return clamp(x, 0, 6)


@kernel("clamped_relu")
def clamped_relu(call: Call, x: Array, alpha: float, beta: float) -> Array:
    """``min(x, beta)`` where ``x >= 0``, else ``min(alpha * x, beta)``."""
    return np.minimum(_leaky(call, x, alpha), beta)


@kernel("leaky_relu")
def leaky_relu(call: Call, x: Array, alpha: float) -> Array:
    """``x`` where ``x >= 0``, else ``alpha * x``."""
    return _leaky(call, x, alpha)


def _leaky(call: Call, x: Array, alpha: float) -> Array:
    return run_onnx_op(call, "leaky", "LeakyRelu", {"x": x}, work=x.size, alpha=alpha)


@kernel("thresholded_relu")
def thresholded_relu(call: Call, x: Array, alpha: float) -> Array:
    """``x`` where ``x >= alpha``, else 0."""
    return np.where(x >= alpha, x, x.dtype.type(0))


@kernel("prelu")
def prelu(call: Call, x: Array, alpha: Array) -> Array:
    """``x`` where ``x > 0``, else ``alpha * x`` with an ``alpha`` for each channel (axis 1)."""
    return np.where(x > 0, x, x * _along_channels(alpha, x))


@kernel("elu")
def elu(call: Call, x: Array, alpha: float) -> Array:
    """``x`` where ``x > 0``, else ``alpha * (exp(x) - 1)``."""
    below = np.asarray(np.minimum(x, 0))
    np.expm1(below, out=below)
    np.multiply(below, alpha, out=below)
    return np.where(x > 0, x, below)


@kernel("gelu")
def gelu(call: Call, x: Array, mode: str = "EXACT") -> Array:
    """Gaussian error linear unit, exact or by one of two approximations.

    ``EXACT``: ``x / 2 * (1 + erf(x / sqrt(2)))``; ``TANH_APPROXIMATION``: ``x / 2 * (1 + tanh(sqrt(2 / pi) *
    (x + 0.044715 * x**3)))``; ``SIGMOID_APPROXIMATION``: ``x * sigmoid(1.702 * x)``.
    """
    if mode == "SIGMOID_APPROXIMATION":
        return x * _sigmoid(call, np.multiply(x, 1.702))
    if mode == "EXACT":
        bell = gauss_error(call, np.multiply(x, math.sqrt(0.5)))
    elif mode == "TANH_APPROXIMATION":
        bell = np.asarray(np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    else:
        raise ExecutionError("unknown mode of gelu", operation=call.name, found=mode)
    np.add(bell, 1, out=bell)
    np.multiply(bell, x, out=bell)
    np.multiply(bell, 0.5, out=bell)
    return bell


@kernel("linear_activation")
def linear_activation(call: Call, x: Array, alpha: float, beta: float = 0.0) -> Array:
    """``alpha * x + beta``."""
    return _affine(x, alpha, beta)


@kernel("scaled_tanh")
def scaled_tanh(call: Call, x: Array, alpha: float, beta: float) -> Array:
    """``alpha * tanh(beta * x)``."""
    return alpha * np.tanh(x * beta)


@kernel("sigmoid")
def sigmoid(call: Call, x: Array) -> Array:
    """``1 / (1 + exp(-x))``."""
    return _sigmoid(call, x)


@kernel("sigmoid_hard")
def sigmoid_hard(call: Call, x: Array, alpha: float, beta: float) -> Array:
    """``min(max(alpha * x + beta, 0), 1)``."""
    result = _affine(x, alpha, beta)
    np.maximum(result, 0, out=result)
    np.minimum(result, 1, out=result)
    return result


@kernel("silu")
def silu(call: Call, x: Array) -> Array:
    """``x * sigmoid(x)``."""
    result = _sigmoid(call, x)
    np.multiply(result, x, out=result)
    return result


@kernel("softplus")
def softplus(call: Call, x: Array) -> Array:
    """``log(1 + exp(x))``."""
    return _softplus(x)


@kernel("softplus_parametric")
def softplus_parametric(call: Call, x: Array, alpha: Array, beta: Array) -> Array:
    """``alpha * log(1 + exp(beta * x))`` with an ``alpha`` and a ``beta`` for each channel (axis 1)."""
    return _along_channels(alpha, x) * _softplus(x * _along_channels(beta, x))


@kernel("softsign")
def softsign(call: Call, x: Array) -> Array:
    """``x / (1 + |x|)``."""
    result: Array = np.divide(x, np.abs(x) + 1)
    return result


@kernel("softmax")
def softmax(call: Call, x: Array, axis: int = -1) -> Array:
    """``exp(x) / sum(exp(x))`` along an axis."""
    return run_onnx_op(call, "softmax", "Softmax", {"x": x}, work=EXPONENTIAL_COST * x.size, axis=axis)
