"""Comparisons and choices of 32-bit integers, which OpenVINO's CPU plugin computes in float32, made exact.

1500000000 and 1500000001 are equal to it (seen in OpenVINO 2026.4), and a choice between integers is made in the kernel
of the comparison that decides it, so that the integers are rounded, too. Differences, products and the greater of two
are exact; those that leave 32 bits wrap around, and so do the sums, which are right again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.integer_quotients import IN_FLOATS, may_be_large
from edgekit_openvino.exact.replacing import put_in_place_of

EQUALITIES = ("Equal", "NotEqual")
ORDERS = {"GreaterEqual": (0, False), "Less": (0, True), "LessEqual": (1, False), "Greater": (1, True)}
"""Of each order the operand that is the greater of the two where it holds, and whether it holds where it is not."""
KINDS = (*EQUALITIES, *ORDERS)
EXACT_IN_FLOATS = 1 << 24
"""Integers below it are themselves in float32, and greater ones do not come to lie among them."""


def keep_integer_comparison(operation: Any) -> bool:
    """Compares integers by their difference where both may be large; names stay.

    Args:
        operation: One of :data:`KINDS` of an ``openvino.Model``.

    Returns:
        Whether it was changed.
    """
    from openvino import opset13

    operands = [operation.input_value(place) for place in range(2)]
    if operation.get_input_element_type(0).get_type_name() not in IN_FLOATS or any(map(is_small, operands)):
        return False
    if not may_be_large(operation):
        return False
    kind = operation.get_type_name()
    if kind in EQUALITIES:
        difference, is_other = opset13.subtract(*operands), kind == "NotEqual"
    else:
        place, is_other = ORDERS[kind]
        difference = opset13.subtract(opset13.maximum(*operands), operands[place])
    none = opset13.constant(np.zeros((), operands[0].get_element_type().to_dtype()))
    exact = opset13.not_equal(difference, none) if is_other else opset13.equal(difference, none)
    put_in_place_of(operation, exact)
    return True


def keep_integer_choice(select: Any) -> None:
    """Adds what two integers differ by, times 0 or 1, where a comparison chooses between them and they may be large."""
    from openvino import opset13

    condition, chosen, other = (select.input_value(place) for place in range(3))
    kind = select.get_element_type().get_type_name()
    is_compared = condition.get_node().get_type_name() in KINDS
    if is_compared and kind in IN_FLOATS and not (is_small(chosen) and is_small(other)) and may_be_large(select):
        difference = opset13.subtract(chosen, other)
        put_in_place_of(select, opset13.add(other, opset13.multiply(opset13.convert(condition, kind), difference)))


def is_small(value: Any) -> bool:
    """Whether a value is a constant of numbers that float32 has and that no greater integer is rounded to."""
    node = value.get_node()
    return node.get_type_name() == "Constant" and bool(np.all(np.abs(node.data.astype(np.int64)) < EXACT_IN_FLOATS))
