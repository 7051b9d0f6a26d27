"""Unsigned integers of 32 bits, which OpenVINO's CPU plugin takes for signed ones, compared and divided as unsigned.

For the plugin 4294967295 is less than 0, and half of it is 0 (seen in OpenVINO 2026.4). Unsigned integers minus 2 to
the power of 31 are signed integers in the same order. A quotient is twice that of half the dividend, plus one if the
remainder is at least the divisor (Warren, Hacker's Delight, 2nd edition, section 9-3). Sums, products and bitwise
operations are those of signed integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.integer_comparisons import keep_integer_comparison
from edgekit_openvino.exact.integer_kernels import keep_integer_kernel
from edgekit_openvino.exact.integer_quotients import divided, may_be_large
from edgekit_openvino.exact.replacing import put_in_place_of

LIMITS = np.iinfo(np.int32)
ORDERS = {"Greater": "greater", "GreaterEqual": "greater_equal", "Less": "less", "LessEqual": "less_equal"}
COMPARED = {**ORDERS, "Equal": "equal", "NotEqual": "not_equal"}
CHOSEN = {"Maximum": "maximum", "Minimum": "minimum"}
REDUCED = {"ReduceMax": "reduce_max", "ReduceMin": "reduce_min"}
ADDED_UP = ("ReduceL1", "ReduceSum")
DIVIDED = ("Divide", "FloorMod", "Mod")
KINDS = frozenset({*COMPARED, *CHOSEN, *REDUCED, *DIVIDED, *ADDED_UP, "Abs", "Convert", "Sign"})


def keep_unsigned(operation: Any) -> bool:
    """Computes with unsigned integers where they may be large; names stay.

    Args:
        operation: One of :data:`KINDS` of an ``openvino.Model``.

    Returns:
        Whether it was changed.
    """
    from openvino import opset13

    kind, result = operation.get_type_name(), operation.get_element_type().get_type_name()
    if operation.get_input_element_type(0).get_type_name() != "u32" or not may_be_large(operation):
        return False
    if kind in COMPARED:
        compared = getattr(opset13, COMPARED[kind])(*map(_ordered, operation.input_values()))
        put_in_place_of(operation, compared)
        keep_integer_comparison(compared)
    elif kind in CHOSEN:
        chosen = getattr(opset13, CHOSEN[kind])(*map(_ordered, operation.input_values()))
        put_in_place_of(operation, _unordered(chosen))
    elif kind in REDUCED:
        value, axes = operation.input_values()
        reduced = getattr(opset13, REDUCED[kind])(_ordered(value), axes, operation.get_attributes()["keep_dims"])
        put_in_place_of(operation, _unordered(reduced))
        keep_integer_kernel(reduced)
    elif kind in ADDED_UP:
        value, axes = operation.input_values()
        total = opset13.reduce_sum(_signed(value), axes, operation.get_attributes()["keep_dims"])
        put_in_place_of(operation, opset13.convert(total, "u32"))
        keep_integer_kernel(total)
    elif kind in DIVIDED:
        quotient, left = _divided(*map(_signed, operation.input_values()))
        put_in_place_of(operation, opset13.convert(quotient if kind == "Divide" else left, "u32"))
    elif kind == "Abs":
        put_in_place_of(operation, opset13.convert(_signed(operation.input_value(0)), "u32"))
    elif kind == "Sign" or result == "boolean":
        is_other = opset13.not_equal(_signed(operation.input_value(0)), _number(0))
        put_in_place_of(operation, opset13.convert(is_other, result) if kind == "Sign" else is_other)
    else:
        return False
    return True


def _signed(value: Any) -> Any:
    """The signed integers of the same bits."""
    from openvino import opset13

    return opset13.convert(value, "i32")


def _ordered(value: Any) -> Any:
    """Signed integers in the order of unsigned ones."""
    from openvino import opset13

    return opset13.add(_signed(value), _number(LIMITS.min))


def _unordered(ordered: Any) -> Any:
    from openvino import opset13

    return opset13.convert(opset13.add(ordered, _number(LIMITS.min)), "u32")


def _divided(dividend: Any, divisor: Any) -> tuple[Any, Any]:
    """Returns the quotient and the remainder, as signed integers of the same bits."""
    from openvino import opset13

    none, one, two = map(_number, (0, 1, 2))
    is_great = opset13.convert(opset13.less(divisor, none), "i32")  # it goes into the dividend once, or not at all
    small = opset13.maximum(divisor, one)
    half = opset13.add(
        divided(opset13.bitwise_and(dividend, _number(LIMITS.max)).output(0), two.output(0))[0],
        opset13.multiply(opset13.convert(opset13.less(dividend, none), "i32"), _number(1 << 30)),
    )
    doubled = opset13.multiply(divided(half.output(0), small.output(0))[0], two)
    doubled = opset13.multiply(doubled, opset13.subtract(one, is_great))
    left = opset13.subtract(dividend, opset13.multiply(doubled, divisor))
    quotient = opset13.add(doubled, _is_at_least(left, divisor))
    return quotient, opset13.subtract(dividend, opset13.multiply(quotient, divisor))


def _is_at_least(one: Any, other: Any) -> Any:
    """Returns 1 where ``one`` is at least ``other``, both read as unsigned integers, and 0 elsewhere."""
    from openvino import opset13

    first, second = (opset13.add(each, _number(LIMITS.min)) for each in (one, other))
    difference = opset13.subtract(opset13.maximum(first, second), first)
    return opset13.convert(opset13.equal(difference, _number(0)), "i32")


def _number(number: int) -> Any:
    from openvino import opset13

    return opset13.constant(np.array(number, np.int32))
