"""Comparisons, logic, bits and shifts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from edgekit_coreml.frontend.context import Context
from edgekit_coreml.frontend.integers import wrapped
from edgekit_coreml.frontend.mil import Var, mb
from edgekit_coreml.frontend.registry import lowering
from edgekit_coreml.frontend.values import Value, computed

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


@lowering("Greater", "Less", versions=[7, 9, 13])
@lowering("GreaterOrEqual", "LessOrEqual", versions=[12, 16])
def compare(ctx: Context, a: Value, b: Value) -> Value:
    """An order of numbers."""
    return computed(COMPARISONS[ctx.op_type](x=a.var, y=b.var), ir.DataType.BOOL)


@lowering("Equal", versions=[7, 11, 13, 19], note="not of strings")
def equal(ctx: Context, a: Value, b: Value) -> Value:
    """Equality of numbers, or of truth values."""
    if a.dtype is ir.DataType.BOOL:
        return computed(mb.logical_not(x=mb.logical_xor(x=a.var, y=b.var)), ir.DataType.BOOL)
    return computed(mb.equal(x=a.var, y=b.var), ir.DataType.BOOL)


@lowering("And", "Or", "Xor", versions=[7])
def connect(ctx: Context, a: Value, b: Value) -> Var:
    """Logic of truth values."""
    return CONNECTIVES[ctx.op_type](x=a.var, y=b.var)


@lowering("Not", versions=[1])
def negate(ctx: Context, x: Value) -> Var:
    """The other truth value."""
    return mb.logical_not(x=x.var)


@lowering("BitwiseNot", versions=[18])
def bitwise_not(ctx: Context, x: Value) -> Var:
    """All bits inverted: -1 - x in two's complement."""
    return wrapped(mb.sub(x=-1, y=x.var), x.dtype)


@lowering("BitwiseAnd", "BitwiseOr", "BitwiseXor", versions=[18])
def bitwise(ctx: Context, a: Value, b: Value) -> Var:
    """Bits are taken apart along a new last dimension, connected as truth values, and put together again."""
    shape = np.broadcast_shapes(a.static_shape, b.static_shape)
    bits = CONNECTIVES[ctx.op_type.removeprefix("Bitwise")](x=bits_of(a, len(shape)), y=bits_of(b, len(shape)))
    # In two's complement the highest bit counts negatively.
    weights = np.array([*(1 << place for place in range(CARRIER_BITS - 1)), -(1 << (CARRIER_BITS - 1))], np.int32)
    weighted = mb.mul(x=mb.cast(x=bits, dtype="int32"), y=weights)
    return wrapped(mb.reduce_sum(x=weighted, axes=[-1], keep_dims=False), a.dtype)


def bits_of(x: Value, rank: int) -> Var:
    """The bits of a carrier along a new last dimension, the lowest first; dimensions of size 1 fill up the rank."""
    var = mb.reshape(x=x.var, shape=[*(1,) * (rank - x.rank), *x.static_shape, 1])
    powers = np.array([1 << place for place in range(CARRIER_BITS - 1)], np.int32)
    low = mb.equal(x=mb.mod(x=mb.floor_div(x=var, y=powers), y=2), y=1)
    return mb.concat(values=[low, mb.less(x=var, y=0)], axis=-1)


@lowering("BitShift", versions=[11], note="64- and 32-bit integers as far as they fit int32")
def bit_shift(ctx: Context, x: Value, places: Value, *, direction: str) -> Var:
    """Times or over a power of two, which a table has."""
    powers = np.array([1 << place for place in range(CARRIER_BITS - 1)], np.int32)
    factor = mb.gather(x=powers, indices=mb.minimum(x=places.var, y=CARRIER_BITS - 2), axis=0)
    if direction == "RIGHT":
        return mb.floor_div(x=x.var, y=factor)
    return wrapped(mb.mul(x=x.var, y=factor), x.dtype)
