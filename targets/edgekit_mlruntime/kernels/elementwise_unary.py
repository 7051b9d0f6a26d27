"""Elementwise operations of one operand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from edgekit_mlruntime.kernels.onnx_op import run_onnx_op
from edgekit_mlruntime.program import Array, DataType
from edgekit_mlruntime.registry import Call, kernel

EXPONENTIAL_COST = 10
"""Estimated cost of an exponential function, in multiply-adds."""

_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp2": np.exp2,
    "floor": np.floor,
    "logical_not": np.logical_not,
    "round": np.rint,  # halves go to the even neighbour
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
}
_EXACT = frozenset({"abs", "ceil", "floor", "round", "sign"})
"""Operations whose result on a float16 value is a float16 value: they need no rounding."""


def _register(name: str, function: Callable[[Array], Array]) -> None:
    """Make a NumPy function the kernel of an operation."""

    def compute(call: Call, x: Array) -> Array:
        return function(x)

    kernel(name, raw=name in _EXACT)(compute)


for _name, _function in _FUNCTIONS.items():
    _register(_name, _function)


@kernel("exp")
def exp(call: Call, x: Array) -> Array:
    """``e ** x``."""
    return exponential(call, x)


def exponential(call: Call, x: Array) -> Array:
    """A new array of ``e ** x``, for a float32 array of any shape: faster and more accurate than NumPy's."""
    return run_onnx_op(call, "exp", "Exp", {"x": x}, work=EXPONENTIAL_COST * x.size)


@kernel("erf")
def erf(call: Call, x: Array) -> Array:
    """The Gauss error function."""
    return gauss_error(call, x)


def gauss_error(call: Call, x: Array) -> Array:
    """The Gauss error function of a float32 array of any shape."""
    return run_onnx_op(call, "erf", "Erf", {"x": x}, work=EXPONENTIAL_COST * x.size)


@kernel("inverse")
def inverse(call: Call, x: Array, epsilon: float | None = None) -> Array:
    """``1 / (x + epsilon)``."""
    return np.reciprocal(_shifted(call, x, epsilon, default=1e-4))


@kernel("log")
def log(call: Call, x: Array, epsilon: float | None = None) -> Array:
    """``log(x + epsilon)``."""
    return np.log(_shifted(call, x, epsilon, default=1e-45))


@kernel("rsqrt")
def rsqrt(call: Call, x: Array, epsilon: float | None = None) -> Array:
    """``1 / sqrt(x + epsilon)``."""
    root = np.sqrt(_shifted(call, x, epsilon, default=1e-12))
    return np.divide(1, root, dtype=root.dtype)


def _shifted(call: Call, x: Array, epsilon: float | None, default: float) -> Array:
    """``x + epsilon``; the default is rounded to the declared element type of ``x`` and may become 0 in float16."""
    if epsilon is None:
        half = call.input_type("x").dtype is DataType.FLOAT16
        epsilon = float(np.float16(default) if half else np.float32(default))
    return np.add(x, epsilon) if epsilon else x


@kernel("clip")
def clip(call: Call, x: Array, alpha: float, beta: float) -> Array:
    """Limit ``x`` to ``[alpha, beta]``; NaN stays."""
    return clamp(x, alpha, beta)


def clamp(x: Array, low: float, high: float) -> Array:
    """Limit ``x`` to ``[low, high]`` in one pass over memory; faster in NumPy than even a single ``maximum``."""
    limited: Array = np.clip(x, low, high)
    return limited


@kernel("threshold")
def threshold(call: Call, x: Array, alpha: float) -> Array:
    """``max(x, alpha)``."""
    return clamp(x, alpha, math.inf) if x.dtype.kind == "f" else np.maximum(x, alpha)
