"""Conversion of element types."""

from __future__ import annotations

import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import INTEGERS, UNSIGNED, Unsupported, Value, carrier_name, computed
from edgekit_mil.support.integer_arithmetic import NARROW_BITS, wrapped

TO_NOTE = "from and to floats, integers and bool; round_mode and saturate concern 8-bit floats only"


@lowering("Cast", versions=[6, 9, 13, 19, 21, 23, 24, 25, 28], note=TO_NOTE, elementwise=True)
def cast(ctx: Context, x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Converts to the type that an attribute names."""
    return converted(x, ir.DataType(to))


@lowering("CastLike", versions=[15, 19, 21, 23, 24, 25], note=TO_NOTE, elementwise=True)
def cast_like(ctx: Context, x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    """Converts to the type of another tensor."""
    return converted(x, like.dtype)


def converted(x: Value, to: ir.DataType) -> Value:
    """Converts a value to another type: floats are truncated to integers, and integers wrap around in narrower types.

    Raises:
        Unsupported: ML Programs have no such type.
    """
    target = carrier_name(to)
    if to is x.dtype:
        return computed(mb.identity(x=x.var), to)
    if target == "bool":
        return computed(mb.not_equal(x=x.var, y=0 if x.is_integer else 0.0), to)
    if target == "int32":
        narrows = x.is_float or (x.is_integer and not holds(to, x.dtype))
        whole = mb.cast(x=x.var, dtype="int32")
        return computed(wrapped(whole, to) if narrows else whole, to)
    number = mb.cast(x=x.var, dtype="fp32") if not x.is_float else x.var
    if to is ir.DataType.FLOAT16:
        return computed(mb.cast(x=mb.cast(x=number, dtype="fp16"), dtype="fp32"), to)
    if to is ir.DataType.BFLOAT16:
        raise Unsupported("ML Programs have no bfloat16")
    return computed(mb.identity(x=number) if number is x.var else number, to)


def holds(wide: ir.DataType, narrow: ir.DataType) -> bool:
    """Whether the type ``wide`` has every integer of the type ``narrow``."""
    if wide not in NARROW_BITS:
        return wide not in UNSIGNED or narrow in UNSIGNED
    bits = NARROW_BITS.get(narrow, 32)
    if (narrow in UNSIGNED) == (wide in UNSIGNED):
        return bits <= NARROW_BITS[wide]
    return narrow in UNSIGNED and bits < NARROW_BITS[wide]


@lowering("BitCast", versions=[26], note="between integers of one width, and from bool", elementwise=True)
def bit_cast(ctx: Context, x: Value, *, to: int) -> Value:
    """The same bits as another type."""
    target = ir.DataType(to)
    if x.dtype is ir.DataType.BOOL and target in INTEGERS:
        return computed(mb.cast(x=x.var, dtype="int32"), target)
    if not (x.dtype in INTEGERS and target in INTEGERS):
        raise Unsupported("ML Programs cannot take the bits of a number apart")
    return computed(wrapped(mb.identity(x=x.var), target), target)
