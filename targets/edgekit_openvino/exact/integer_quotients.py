"""Quotients and remainders of 32-bit integers, which OpenVINO's CPU plugin divides in float32, made exact.

The plugin computes 2147483647 / 2 as 1073741824; quotients of integers up to 2^24 are right (seen in OpenVINO 2026.4).
Here the remainder is divided again, and a quotient whose magnitude is then one too large or too small is corrected by
one. Products that leave 32 bits wrap around, and differences with them wrap back to the right result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import put_in_place_of

KINDS = ("Divide", "FloorMod", "Mod")
IN_FLOATS = ("i32", "i64")
"""Types that the plugin divides and compares in float32; of 64 bits it keeps 32."""
SMALL = ("ArgMax", "ArgMin", "NonMaxSuppression", "NonZero", "Range", "ShapeOf")
"""Operations whose integers are sizes, or places along an axis."""
PLACES_OF_GREATEST = 1
"""The index of TopK's output that holds places."""


def keep_integer_quotient(operation: Any) -> bool:
    """Makes a quotient or a remainder of integers exact where they may be large; names stay.

    Args:
        operation: One of :data:`KINDS` of an ``openvino.Model``.

    Returns:
        Whether it was changed.
    """
    from openvino import opset13

    if operation.get_element_type().get_type_name() not in IN_FLOATS or not may_be_large(operation):
        return False
    dividend, divisor = operation.input_value(0), operation.input_value(1)
    kind = operation.get_type_name()
    quotient, left = divided(dividend, divisor)
    if kind == "FloorMod":
        none = number_like(divisor, 0)
        is_other = opset13.logical_xor(opset13.less(left, none), opset13.less(divisor, none))
        # The divisor itself is not selected, since the plugin selects in float32.
        is_moved = opset13.logical_and(opset13.not_equal(left, none), is_other)
        moved = opset13.multiply(opset13.select(is_moved, number_like(divisor, 1), none), divisor)
        left = opset13.add(left, moved)
    put_in_place_of(operation, quotient if kind == "Divide" else left)
    return True


def divided(dividend: Any, divisor: Any) -> tuple[Any, Any]:
    """Returns the quotient, truncated towards zero, and the remainder, which has the dividend's sign."""
    from openvino import opset13

    none = number_like(divisor, 0)

    def left_by(quotient: Any) -> Any:
        return opset13.subtract(dividend, opset13.multiply(quotient, divisor))

    quotient = opset13.divide(dividend, divisor)
    quotient = opset13.add(quotient, opset13.divide(left_by(quotient), divisor))
    left = left_by(quotient)
    is_negative = opset13.less(dividend, none)
    is_too_far = opset13.less(opset13.select(is_negative, opset13.negative(left), left), none)
    below = opset13.subtract(
        _below_zero(left), number_like(divisor, 1)
    )  # of 0 and the least integer it stays in 32 bits
    is_too_short = opset13.less(opset13.subtract(below, _below_zero(divisor)), none)
    outwards = opset13.select(
        opset13.logical_xor(is_negative, opset13.less(divisor, none)), number_like(divisor, -1), number_like(divisor, 1)
    )
    short = opset13.select(is_too_short, outwards, none)
    moved = opset13.select(is_too_far, opset13.negative(outwards), short)
    quotient = opset13.add(quotient, moved)
    return quotient, left_by(quotient)


def _below_zero(numbers: Any) -> Any:
    """Returns the negated magnitudes: the magnitude of the least integer does not fit into 32 bits."""
    from openvino import opset13

    return opset13.minimum(numbers, opset13.negative(numbers))


def number_like(like: Any, number: int) -> Any:
    """A constant of the element type of another value."""
    from openvino import opset13

    return opset13.constant(np.asarray(number, like.get_element_type().to_dtype()))


def may_be_large(operation: Any) -> bool:
    """Whether the inputs of an operation depend on more than constants, sizes and places along an axis."""
    waiting, seen = [inner.get_source_output() for inner in operation.inputs()], set()
    while waiting:
        port = waiting.pop()
        node = port.get_node()
        kind, key = node.get_type_name(), (node.get_name(), port.get_index())
        if key in seen or kind in SMALL or (kind == "TopK" and port.get_index() == PLACES_OF_GREATEST):
            continue
        seen.add(key)
        if kind in ("Parameter", "ReadValue"):
            return True
        waiting.extend(inner.get_source_output() for inner in node.inputs())
    return False
