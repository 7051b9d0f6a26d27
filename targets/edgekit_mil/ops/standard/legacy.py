"""Operators up to opset 6, in which broadcasting had to be requested."""

from __future__ import annotations

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Value, computed
from edgekit_mil.ops.standard import activation, arithmetic, logic
from edgekit_mil.support.movement import reshaped


@lowering("Add", "Sub", "Mul", "Div", versions=[1, 6])
@lowering("Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", versions=[1])
def binary(
    ctx: Context,
    a: Value,
    b: Value,
    *,
    axis: int | None = None,
    broadcast: int = 0,
    consumed_inputs: list[int] | None = None,
) -> Var | Value:
    """Repeats the second operand along the first one's dimensions, which it matches from an axis on."""
    if broadcast and axis is not None:
        b = placed(b, axis % max(a.rank, 1), a.rank)
    return MODERN[ctx.op_type](ctx, a, b)


MODERN = {
    "Add": arithmetic.binary,
    "Sub": arithmetic.binary,
    "Mul": arithmetic.binary,
    "Div": arithmetic.divide,
    "Pow": arithmetic.power,
    "And": logic.connect,
    "Or": logic.connect,
    "Xor": logic.connect,
    "Equal": logic.equal,
    "Greater": logic.compare,
    "Less": logic.compare,
}


def placed(x: Value, axis: int, rank: int) -> Value:
    """Reshapes a tensor so that its dimensions match those of a larger rank from an axis on."""
    shape = [*x.static_shape, *(1,) * (rank - axis - x.rank)]
    return computed(reshaped(x, shape), x.dtype)


@lowering("Max", "Min", "Sum", versions=[1, 6])
def variadic(ctx: Context, *xs: Value, consumed_inputs: list[int] | None = None) -> Var:
    """Of tensors of one shape."""
    return arithmetic.variadic(ctx, *xs)


@lowering("Mean", versions=[1, 6])
def mean(ctx: Context, *xs: Value, consumed_inputs: list[int] | None = None) -> Var:
    """Of tensors of one shape."""
    return arithmetic.mean(ctx, *xs)


@lowering("PRelu", versions=[1, 6])
def prelu(ctx: Context, x: Value, slope: Value, *, consumed_inputs: list[int] | None = None) -> Var:
    """PRelu with one slope, or with one for every channel, the second dimension."""
    if slope.rank == 1 and x.rank > 1 and slope.static_shape[0] > 1:
        slope = placed(slope, 1, x.rank)
    return activation.prelu(ctx, x, slope)
