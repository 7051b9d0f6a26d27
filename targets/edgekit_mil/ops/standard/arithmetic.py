"""Arithmetic of two or more tensors, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Value
from edgekit_mil.support.bounds import reachable
from edgekit_mil.support.integer_arithmetic import truncated_quotient, wrapped

BINARY: dict[str, Callable[..., Var]] = {"Add": mb.add, "Mul": mb.mul, "Sub": mb.sub}
VARIADIC: dict[str, Callable[..., Var]] = {"Max": mb.maximum, "Min": mb.minimum, "Sum": mb.add}


@lowering("Add", "Mul", "Sub", versions=[7, 13, 14], elementwise=True)
def binary(ctx: Context, a: Value, b: Value) -> Var:
    """Sum, product and difference; 8- and 16-bit integers wrap around."""
    return wrapped(BINARY[ctx.op_type](x=a.var, y=b.var), a.dtype)


FAR = np.float32(2.0**64)
"""Factor by which both operands are divided first, exactly, if the divisor exceeds float32."""


@lowering("Div", versions=[7, 13, 14], elementwise=True)
def divide(ctx: Context, a: Value, b: Value) -> Var:
    """Quotient; that of integers is truncated towards zero."""
    if a.is_float:
        if _leaves_float32(b.constant):
            assert b.constant is not None
            return mb.real_div(x=mb.real_div(x=a.var, y=FAR), y=(b.constant / float(FAR)).astype(np.float32))
        return mb.real_div(x=a.var, y=b.var)
    return wrapped(truncated_quotient(a, b), a.dtype)


def _leaves_float32(numbers: np.ndarray | None) -> bool:
    """Whether a finite double exceeds float32's range: integer networks divide by powers of two beyond 2^127."""
    if numbers is None or numbers.dtype != np.float64:
        return False
    finite = np.abs(numbers[np.isfinite(numbers)])
    return bool(finite.size and finite.max() > np.finfo(np.float32).max)


@lowering("Mod", versions=[10, 13, 28], elementwise=True)
def modulo(ctx: Context, a: Value, b: Value, *, fmod: int = 0) -> Var:
    """Remainder with the divisor's sign, or with the dividend's (``fmod``)."""
    if not fmod:
        return mb.mod(x=a.var, y=b.var)
    remainder = mb.mod(x=mb.abs(x=a.var), y=mb.abs(x=b.var))
    return mb.mul(x=mb.sign(x=a.var), y=remainder)


@lowering(
    "Pow", versions=[7, 12, 13, 15], note="an integer to the power of floats is computed in float32", elementwise=True
)
def power(ctx: Context, base: Value, exponent: Value) -> Var:
    """Base to the exponent, in the base's type."""
    if exponent.is_constant and exponent.constant is not None and exponent.constant.size == 1:
        number = float(exponent.constant.reshape(-1)[0])
        if exponent.rank <= base.rank and number in (1.0, 2.0):
            return wrapped(mb.square(x=base.var), base.dtype) if number == 2.0 else mb.identity(x=base.var)
        if exponent.rank <= base.rank and base.is_float and number == 0.5:
            return mb.sqrt(x=base.var)
    if base.is_integer and exponent.is_integer:
        return wrapped(mb.pow(x=base.var, y=exponent.var), base.dtype)
    x = base.var if base.is_float else mb.cast(x=base.var, dtype="fp32")
    y = exponent.var if exponent.is_float else mb.cast(x=exponent.var, dtype="fp32")
    result = mb.pow(x=x, y=y)
    return result if base.is_float else wrapped(mb.cast(x=result, dtype="int32"), base.dtype)


@lowering("Max", "Min", versions=[8, 12, 13], elementwise=True)
@lowering("Sum", versions=[8, 13], elementwise=True)
def variadic(ctx: Context, *xs: Value) -> Var:
    """The maximum, minimum or sum of all tensors."""
    if ctx.op_type != "Sum":
        xs = tuple(reachable(x, upper=ctx.op_type == "Min") for x in xs)
    if len(xs) == 1:
        return mb.identity(x=xs[0].var)
    return reduce(lambda x, y: VARIADIC[ctx.op_type](x=x, y=y), [x.var for x in xs])


@lowering("Mean", versions=[8, 13], elementwise=True)
def mean(ctx: Context, *xs: Value) -> Var:
    """The mean of all tensors."""
    total = reduce(lambda x, y: mb.add(x=x, y=y), [x.var for x in xs])
    return mb.real_div(x=total, y=float(len(xs))) if len(xs) > 1 else mb.identity(x=total)
