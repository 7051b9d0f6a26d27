"""Integer arithmetic as ONNX has it, on the int32 that carries every integer type."""

from __future__ import annotations

import onnx_ir as ir

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import UNSIGNED, Value

NARROW_BITS = {
    ir.DataType.INT8: 8,
    ir.DataType.UINT8: 8,
    ir.DataType.INT16: 16,
    ir.DataType.UINT16: 16,
}


def wrapped(x: Var, dtype: ir.DataType) -> Var:
    """Wraps an int32 result around into the range of an 8-bit or 16-bit type; for other types it is unchanged."""
    bits = NARROW_BITS.get(dtype)
    if bits is None:
        return x
    if dtype in UNSIGNED:
        return mb.mod(x=x, y=1 << bits)
    half = 1 << (bits - 1)
    return mb.sub(x=mb.mod(x=mb.add(x=x, y=half), y=1 << bits), y=half)


def truncated_quotient(a: Value, b: Value) -> Var:
    """``a / b`` rounded towards zero; MIL's integer division rounds down."""
    x, y = a.var, b.var
    if a.dtype in UNSIGNED:
        return mb.floor_div(x=x, y=y)
    magnitude = mb.floor_div(x=mb.abs(x=x), y=mb.abs(x=y))
    return mb.mul(x=magnitude, y=mb.mul(x=mb.sign(x=x), y=mb.sign(x=y)))
