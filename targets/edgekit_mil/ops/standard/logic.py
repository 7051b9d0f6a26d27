"""Comparisons, logic, bits and shifts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import HIGHEST_RANK, Value, computed, is_beyond_int32
from edgekit_mil.support.integer_arithmetic import NARROW_BITS, wrapped
from edgekit_mil.support.movement import broadcast, reshaped

COMPARISONS: dict[str, Callable[..., Var]] = {
    "Greater": mb.greater,
    "GreaterOrEqual": mb.greater_equal,
    "Less": mb.less,
    "LessOrEqual": mb.less_equal,
}
CONNECTIVES: dict[str, Callable[..., Var]] = {
    "And": mb.logical_and,
    "Or": mb.logical_or,
    "Xor": mb.logical_xor,
}
CARRIER_BITS = 32
# In two's complement the highest bit counts negatively.
BIT_WEIGHTS = np.array([*(1 << place for place in range(CARRIER_BITS - 1)), -(1 << (CARRIER_BITS - 1))], np.int32)


@lowering("Greater", "Less", versions=[7, 9, 13], elementwise=True)
@lowering("GreaterOrEqual", "LessOrEqual", versions=[12, 16], elementwise=True)
def compare(ctx: Context, a: Value, b: Value) -> Value:
    """Compares numbers; a constant that does not fit int32 is beyond every integer of the program."""
    for x, y in ((a, b), (b, a)):
        if is_beyond(y, x):
            assert y.constant is not None
            a_is_less = (int(y.constant.reshape(())) > 0) == (y is b)
            return always(x, y, truth=a_is_less == ctx.op_type.startswith("Less"))
    return computed(COMPARISONS[ctx.op_type](x=a.var, y=b.var), ir.DataType.BOOL)


@lowering("Equal", versions=[7, 11, 13, 19], note="not of strings", elementwise=True)
def equal(ctx: Context, a: Value, b: Value) -> Value:
    """Equality of numbers, or of truth values; no integer equals a constant that does not fit int32."""
    if a.dtype is ir.DataType.BOOL:
        return computed(mb.logical_not(x=mb.logical_xor(x=a.var, y=b.var)), ir.DataType.BOOL)
    for x, y in ((a, b), (b, a)):
        if is_beyond(y, x):
            return always(x, y, truth=False)
    return computed(mb.equal(x=a.var, y=b.var), ir.DataType.BOOL)


def is_beyond(one: Value, other: Value) -> bool:
    """Whether ``one`` is a constant number that no integer of the program reaches, and ``other`` is computed."""
    known = one.constant is not None and one.constant.size == 1 and other.constant is None
    return known and one.constant is not None and is_beyond_int32(one.constant)


def always(x: Value, number: Value, *, truth: bool) -> Value:
    """One truth value in the shape of a computed tensor broadcast with a number: [..., *x]."""
    missing = list(range(number.rank - x.rank))
    var = mb.expand_dims(x=x.var, axes=missing) if missing else x.var
    return computed((mb.equal if truth else mb.not_equal)(x=var, y=var), ir.DataType.BOOL)


@lowering("And", "Or", "Xor", versions=[7], elementwise=True)
def connect(ctx: Context, a: Value, b: Value) -> Var:
    """Logic of truth values."""
    return CONNECTIVES[ctx.op_type](x=a.var, y=b.var)


@lowering("Not", versions=[1], elementwise=True)
def negate(ctx: Context, x: Value) -> Var:
    """Logical negation."""
    return mb.logical_not(x=x.var)


@lowering("BitwiseNot", versions=[18], elementwise=True)
def bitwise_not(ctx: Context, x: Value) -> Var:
    """All bits inverted: -1 - x in two's complement."""
    return wrapped(mb.sub(x=-1, y=x.var), x.dtype)


@lowering("BitwiseAnd", "BitwiseOr", "BitwiseXor", versions=[18], elementwise=True)
def bitwise(ctx: Context, a: Value, b: Value) -> Var:
    """Splits the bits along a new last dimension, combines them as truth values, and puts them together again."""
    has_room = max(a.rank, b.rank) < HIGHEST_RANK
    shape = () if has_room else np.broadcast_shapes(a.static_shape, b.static_shape)
    spread = [value.var if has_room else in_a_row(value, shape) for value in (a, b)]
    bits = CONNECTIVES[ctx.op_type.removeprefix("Bitwise")](x=bits_of(spread[0]), y=bits_of(spread[1]))
    weighted = mb.mul(x=mb.cast(x=bits, dtype="int32"), y=BIT_WEIGHTS)
    number = wrapped(mb.reduce_sum(x=weighted, axes=[-1], keep_dims=False), a.dtype)
    return number if has_room else reshaped(computed(number, a.dtype), shape)


def in_a_row(x: Value, shape: tuple[int, ...]) -> Var:
    """All elements of a value in a shape that it broadcasts to: [elements]."""
    return mb.reshape(x=broadcast(x, shape), shape=[math.prod(shape)])


def bits_of(var: Var) -> Var:
    """The bits of every element, the lowest first: [*shape, bits]."""
    spread = mb.expand_dims(x=var, axes=[-1])
    powers = np.array([1 << place for place in range(CARRIER_BITS - 1)], np.int32)
    low = mb.equal(x=mb.mod(x=mb.floor_div(x=spread, y=powers), y=2), y=1)
    return mb.concat(values=[low, mb.less(x=spread, y=0)], axis=-1)


@lowering("BitShift", versions=[11, 28], note="results of 64-bit integers have to fit int32", elementwise=True)
def bit_shift(ctx: Context, x: Value, places: Value, *, direction: str) -> Var:
    """Shifts left or right; beyond the type's bits the result is 0, or -1 for a negative number shifted right."""
    bits = NARROW_BITS.get(x.dtype, CARRIER_BITS)
    places, whole = as_large_as(places, x), as_large_as(x, places)
    most = bits - 1 if direction == "LEFT" else CARRIER_BITS - 2
    inside = mb.logical_and(x=mb.greater_equal(x=places.var, y=0), y=mb.less_equal(x=places.var, y=most))
    near = mb.minimum(x=mb.maximum(x=places.var, y=0), y=most)
    if direction == "RIGHT":
        powers = np.array([1 << place for place in range(most + 1)], np.int32)
        shifted = mb.floor_div(x=x.var, y=mb.gather(x=powers, indices=near, axis=0))
        return mb.select(cond=inside, a=shifted, b=mb.minimum(x=mb.sign(x=whole.var), y=0))
    factor = mb.gather(x=BIT_WEIGHTS, indices=near, axis=0)
    product = wrapped(mb.mul(x=x.var, y=factor), x.dtype)
    return mb.select(cond=inside, a=product, b=mb.mul(x=product, y=0))


def as_large_as(x: Value, other: Value) -> Value:
    """Broadcasts a value of integers to the shape that it and another have together."""
    if x.is_static and other.is_static:
        return computed(broadcast(x, np.broadcast_shapes(x.static_shape, other.static_shape)), x.dtype)
    return computed(mb.add(x=x.var, y=mb.mul(x=other.var, y=0)), x.dtype)
