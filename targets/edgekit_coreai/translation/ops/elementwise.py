"""Arithmetic, comparisons and logic, element by element."""

from __future__ import annotations

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor, element_type

_UNARY = {
    "abs": "abs_",
    "acos": "acos",
    "asin": "asin",
    "atan": "atan",
    "atanh": "atanh",
    "cos": "cos",
    "cosh": "cosh",
    "erf": "erf",
    "exp": "exp",
    "logical_not": "not_",
    "round": "round_",
    "sin": "sin",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}
_BINARY = {
    "add": "add",
    "equal": "equal",
    "floor_div": "floor_divide",
    "greater": "greater",
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
    "maximum": "maximum",
    "minimum": "minimum",
    "mul": "mul",
    "not_equal": "not_equal",
    "sub": "sub",
}


def register_unary(name: str, ours: str) -> None:
    """Registers the lowering of an operation of one tensor to Core AI's operation ``ours``."""

    def write(b: Builder, call: Call, x: Tensor) -> Tensor:
        return b.op(ours, x)

    lowering(name)(write)


def _register_binary(name: str, ours: str) -> None:
    def write(b: Builder, call: Call, x: Tensor, y: Tensor) -> Tensor:
        return b.spread(ours, *same_type(b, x, y))

    lowering(name)(write)


for _name, _ours in _UNARY.items():
    register_unary(_name, _ours)
for _name, _ours in _BINARY.items():
    _register_binary(_name, _ours)


def same_type(b: Builder, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Two operands in one element type: if only one is a constant, that of the other, else the wider type."""
    if x.dtype == y.dtype:
        return x, y
    if x.array is not None and y.array is None:
        return b.cast(x, y.dtype), y
    if y.array is not None and x.array is None:
        return x, b.cast(y, x.dtype)
    target = np.promote_types(x.dtype, y.dtype)
    return b.cast(x, target), b.cast(y, target)


@lowering("less")
def less(b: Builder, call: Call, x: Tensor, y: Tensor) -> Tensor:
    """``x < y``."""
    x, y = same_type(b, x, y)
    return b.less(x, y)


@lowering("greater_equal")
def greater_equal(b: Builder, call: Call, x: Tensor, y: Tensor) -> Tensor:
    """``x >= y``: False where either is NaN."""
    x, y = same_type(b, x, y)
    if not x.is_float:
        return b.op("not_", b.less(x, y))
    return b.spread("or", b.greater(x, y), b.equal(x, y))


@lowering("less_equal")
def less_equal(b: Builder, call: Call, x: Tensor, y: Tensor) -> Tensor:
    """``x <= y``: False where either is NaN."""
    return greater_equal(b, call, y, x)


@lowering("floor")
def floor(b: Builder, call: Call, x: Tensor) -> Tensor:
    """The greatest integer that is at most ``x``."""
    return rounded_down(b, x)


def rounded_down(b: Builder, x: Tensor) -> Tensor:
    """``floor(x)``; integers stay as they are."""
    if not x.is_float:
        return x
    # Floats from this magnitude on are whole and are not rounded: coreai-core 1.0.0b3 would round infinities to NaN.
    whole = 2.0 ** (np.finfo(x.dtype).nmant)
    return b.select(b.less(b.op("abs_", x), whole), b.spread("floor_divide", x, b.like(1, x)), x)


@lowering("ceil")
def ceil(b: Builder, call: Call, x: Tensor) -> Tensor:
    """The least integer that is at least ``x``."""
    return b.negative(rounded_down(b, b.negative(x))) if x.is_float else x


@lowering("sign")
def sign(b: Builder, call: Call, x: Tensor) -> Tensor:
    """-1, 0 or 1; NaN stays."""
    above, below = b.cast(b.greater(x, 0), x.dtype), b.cast(b.less(x, 0), x.dtype)
    made = b.sub(above, below)
    return b.select(b.equal(x, x), made, x) if x.is_float else made


@lowering("square")
def square(b: Builder, call: Call, x: Tensor) -> Tensor:
    """``x * x``."""
    return b.mul(x, x)


@lowering("exp2")
def exp2(b: Builder, call: Call, x: Tensor) -> Tensor:
    """``2 ** x``."""
    return b.spread("pow", b.like(2, x), x)


@lowering("inverse")
def inverse(b: Builder, call: Call, x: Tensor, epsilon: float | None = None) -> Tensor:
    """``1 / (x + epsilon)``."""
    shifted = _shifted(b, x, epsilon, default=1e-4)
    return b.div(b.like(1, x), shifted)


@lowering("log")
def log(b: Builder, call: Call, x: Tensor, epsilon: float | None = None) -> Tensor:
    """``log(x + epsilon)``."""
    return b.op("log", _shifted(b, x, epsilon, default=1e-45))


@lowering("rsqrt")
def rsqrt(b: Builder, call: Call, x: Tensor, epsilon: float | None = None) -> Tensor:
    """``1 / sqrt(x + epsilon)``."""
    return b.op("rsqrt", _shifted(b, x, epsilon, default=1e-12))


def _shifted(b: Builder, x: Tensor, epsilon: float | None, default: float) -> Tensor:
    """``x + epsilon``, or ``x`` if epsilon is 0 in the element type of ``x``."""
    held = b.like(default if epsilon is None else epsilon, x)
    assert held.array is not None
    return x if held.array == 0 else b.add(x, held)


@lowering("clip")
def clip(b: Builder, call: Call, x: Tensor, alpha: float, beta: float) -> Tensor:
    """Limit to ``[alpha, beta]``."""
    return clamped(b, x, alpha, beta)


def clamped(b: Builder, x: Tensor, low: float, high: float) -> Tensor:
    """Limit to ``[low, high]``; an infinite limit has no effect."""
    if x.is_float:
        limits = np.finfo(x.dtype)
        if low > -np.inf:
            x = b.maximum(x, max(low, float(limits.min)))
        return x if high == np.inf else b.minimum(x, min(high, float(limits.max)))
    integers = np.iinfo(x.dtype)
    if low > integers.min:
        x = b.maximum(x, int(np.ceil(low)))
    return b.minimum(x, int(np.floor(high))) if high < integers.max else x


@lowering("threshold")
def threshold(b: Builder, call: Call, x: Tensor, alpha: float) -> Tensor:
    """``max(x, alpha)``."""
    return b.maximum(x, alpha)


@lowering("mod")
def mod(b: Builder, call: Call, x: Tensor, y: Tensor) -> Tensor:
    """The remainder with the divisor's sign; the remainder of Apple's operation has the dividend's sign."""
    x, y = same_type(b, x, y)
    rest = b.spread("modulo", x, y)
    differs = b.spread("xor", b.less(rest, 0), b.less(y, 0))
    wrong = b.spread("and", b.spread("not_equal", rest, b.like(0, rest)), differs)
    return b.select(wrong, b.add(rest, y), rest)


@lowering("real_div")
def real_div(b: Builder, call: Call, x: Tensor, y: Tensor) -> Tensor:
    """``x / y``; integer quotients are truncated toward zero, and division of an integer by zero returns 0."""
    x, y = same_type(b, x, y)
    if x.is_float:
        return b.div(x, y)
    if y.array is not None and np.all(y.array != 0):
        return b.div(x, y)
    none = b.equal(y, 0)
    return b.select(none, 0, b.div(x, b.select(none, 1, y)))


@lowering("pow")
def power(b: Builder, call: Call, x: Tensor, y: Tensor) -> Tensor:
    """``x ** y``."""
    target = np.promote_types(x.dtype, y.dtype) if x.is_float == y.is_float else (x if x.is_float else y).dtype
    x, y = b.cast(x, target), b.cast(y, target)
    if y.array is not None and y.array.size == 1 and y.array.flat[0] == 2:
        squared = b.mul(x, x)
        return squared if y.rank <= x.rank else b.mul(squared, b.constant(np.ones(y.shape, target)))
    if x.is_float:
        return b.spread("pow", x, y)
    positive = b.spread("pow", x, b.maximum(y, 0))
    # Only 1 and -1 have negative powers that are whole numbers other than 0.
    unit = b.equal(b.op("abs_", x), 1)
    even = b.equal(b.sub(y, b.mul(b.div(y, 2), 2)), 0)
    negative = b.select(unit, b.select(even, b.like(1, x), x), 0)
    return b.select(b.less(y, 0), negative, positive)


@lowering("select")
def select(builder: Builder, call: Call, cond: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``a`` where ``cond`` holds, else ``b``."""
    return builder.select(cond, *same_type(builder, a, b))


@lowering("cast")
def cast(b: Builder, call: Call, x: Tensor, dtype: str) -> Tensor:
    """Convert to the declared element type; floats are truncated to integers, and saturate in types below 32 bits."""
    target = element_type(call.output.dtype)
    if target is None:
        raise CannotTranslate(f"values of type {call.output.dtype.name.lower()} cannot be computed with")
    if x.dtype == target:
        return x
    if target.kind == "b":
        return b.spread("not_equal", x, b.like(0, x))
    if x.is_float and target.kind in "iu" and target.itemsize < 4:
        # What Apple's cast returns for values out of range is unspecified: here they become the nearest value in range.
        limits = np.iinfo(target)
        return b.cast(b.cast(clamped(b, x, limits.min, limits.max), np.int32), target)
    return b.cast(x, target)
