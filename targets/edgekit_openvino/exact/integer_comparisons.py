"""Comparisons and choices of 32-bit integers, which OpenVINO's CPU plugin computes in float32, made exact.

The plugin compares 1500000000 and 1500000001 as equal (seen in OpenVINO 2026.4). It makes a choice between integers in
the kernel of the comparison that decides it, so that these integers are rounded, too. Differences, products and maxima
are exact. Differences that leave 32 bits wrap around, and sums with them wrap back to the right result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.integer_quotients import IN_FLOATS, may_be_large
from edgekit_openvino.exact.replacing import put_in_place_of

EQUALITIES = ("Equal", "NotEqual")
ORDERS = {"GreaterEqual": (0, False), "Less": (0, True), "LessEqual": (1, False), "Greater": (1, True)}
"""By comparison: an operand's index, and False if it holds where this operand is the maximum, True if elsewhere."""
KINDS = (*EQUALITIES, *ORDERS)
EXACT_IN_FLOATS = 1 << 24
"""Integers of smaller magnitude are exact in float32, and no greater integer is rounded to one of them."""


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
    """Writes a comparison's choice of integers that may be large as ``other + condition * (chosen - other)``.

    A choice among no elements stays: the plugin ends the process on the arithmetic.
    """
    from openvino import opset13

    condition, chosen, other = (select.input_value(place) for place in range(3))
    kind = select.get_element_type().get_type_name()
    is_compared = condition.get_node().get_type_name() in KINDS
    if any(size == 0 for size in select.get_output_partial_shape(0)):
        return
    if is_compared and kind in IN_FLOATS and not (is_small(chosen) and is_small(other)) and may_be_large(select):
        difference = opset13.subtract(chosen, other)
        put_in_place_of(select, opset13.add(other, opset13.multiply(opset13.convert(condition, kind), difference)))


def is_small(value: Any) -> bool:
    """Whether a value is a constant of integers whose magnitude is below :data:`EXACT_IN_FLOATS`."""
    node = value.get_node()
    return node.get_type_name() == "Constant" and bool(np.all(np.abs(node.data.astype(np.int64)) < EXACT_IN_FLOATS))
