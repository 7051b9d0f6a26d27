"""Elementwise operations of two operands or three, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel

_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "equal": np.equal,
    "floor_div": np.floor_divide,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.mod,  # the sign of the divisor
    "mul": np.multiply,
    "not_equal": np.not_equal,
    "sub": np.subtract,
}
_EXACT = frozenset({"maximum", "minimum"})
"""Operations whose results on float16 values are float16 values: they need no rounding."""


def _register(name: str, function: Callable[[Array, Array], Array]) -> None:
    """Make a NumPy function the kernel of an operation."""

    def compute(call: Call, x: Array, y: Array) -> Array:
        return function(x, y)

    kernel(name, raw=name in _EXACT)(compute)


for _name, _function in _FUNCTIONS.items():
    _register(_name, _function)


@kernel("real_div")
def real_div(call: Call, x: Array, y: Array) -> Array:
    """``x / y``; integer quotients are truncated toward zero as in C, and division of an integer by zero returns 0."""
    if x.dtype.kind == "f":
        return np.divide(x, y)
    quotient = np.floor_divide(x, y)
    remainder = x - quotient * y
    return np.where(y == 0, 0, quotient + ((remainder != 0) & ((x < 0) != (y < 0))))


@kernel("pow")
def power(call: Call, x: Array, y: Array) -> Array:
    """``x ** y``; integers wrap around, and negative powers of integers are truncated to an integer."""
    if y.size == 1 and y.flat[0] == 2:
        return np.broadcast_to(np.square(x), np.broadcast_shapes(x.shape, y.shape))
    if x.dtype.kind == "f" or y.dtype.kind == "f":
        return _power_of_signed(x, y) if _is_whole(y) else np.power(x, y)
    positive = np.power(x, np.maximum(y, 0))
    # Only 1 and -1 have negative powers that are whole numbers other than 0.
    negative = np.where(np.abs(x) == 1, np.where(y % 2 == 0, 1, x), 0)
    return np.where(y >= 0, positive, negative)


def _is_whole(exponent: Array) -> bool:
    return exponent.size == 1 and bool(np.isfinite(exponent)) and bool(exponent == np.floor(exponent))


def _power_of_signed(x: Array, exponent: Array) -> Array:
    """``np.power`` by one whole exponent, without its slow path: negative bases take 30 times as long (NumPy 2.4).

    The tanh form of GELU has such a power, a cube.
    """
    magnitudes = np.power(np.abs(x), exponent)
    return np.copysign(magnitudes, x) if exponent % 2 else magnitudes


@kernel("select", raw=True)
def select(call: Call, cond: Array, a: Array, b: Array) -> Array:
    """``a`` where ``cond`` is True, else ``b``."""
    return np.where(cond, a, b)
