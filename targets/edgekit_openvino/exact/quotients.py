"""Quotients that OpenVINO rounds twice, rounded once where the difference shows in the results.

The CPU plugin multiplies by the reciprocal, so that 41 divided by 41 is the float next to 1, and its Floor 0 (seen in
OpenVINO 2026.4; the transformation is ``ConvertDivide``, and its mark for exceptions cannot be stored in a file).
Elsewhere one unit in the last place does not matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.joined_constants import is_amplified_by
from edgekit_openvino.exact.replacing import hand_over

CUTS = ("Floor", "Ceiling", "Convert")
"""Operations that may give another integer for a float next to an integer; Convert only where it makes integers."""
PASSES_ON = frozenset({"Add", "Divide", "Multiply", "Negative", "Reshape", "Select", "Subtract", "Unsqueeze"})
"""Operations whose results differ in the last place where an operand does."""
STATES_SIZES = "ShapeOf"
SPLIT = np.float32(2**12 + 1)
"""Splits a float32 into two halves of 12 bits (Dekker, A Floating-Point Technique for Extending the Available
Precision, 1971), whose products are exact."""


def keep_quotient(division: Any) -> bool:
    """Makes a number divided by itself 1, and rounds quotients that are truncated or amplified once; names stay.

    Args:
        division: A ``Divide`` of an ``openvino.Model``.

    Returns:
        Whether it was changed.
    """
    from openvino import opset13

    if division.get_element_type().get_type_name() != "f32":
        return False
    dividend, divisor = division.input_value(0), division.input_value(1)
    result = division.output(0)
    readers = result.get_target_inputs()
    if dividend == divisor:
        # the quotient is NaN for zero, and for numbers that are not finite
        right = opset13.select(opset13.is_nan(result), result, opset13.constant(np.float32(1))).output(0)
    elif _shows_in_results(division) and _follows_from_data(division):
        right = rounded_once(dividend, divisor, result)
    else:
        return False
    hand_over(result, right, readers)
    return True


def rounded_once(dividend: Any, divisor: Any, quotient: Any) -> Any:
    """Returns the quotient plus the quotient of its remainder, or the quotient alone where that overflows.

    Args:
        dividend: The output of an operation, in float32.
        divisor: Another one.
        quotient: The output of the ``Divide`` of both, which OpenVINO rounds twice.
    """
    from openvino import opset13

    (high, low), (divisor_high, divisor_low) = _halves(quotient), _halves(divisor)
    left = dividend
    for one, other in ((high, divisor_high), (high, divisor_low), (low, divisor_high), (low, divisor_low)):
        left = opset13.subtract(left, opset13.multiply(one, other))
    better = opset13.add(quotient, opset13.divide(left, divisor))
    return opset13.select(opset13.is_nan(better), quotient, better).output(0)


def _halves(numbers: Any) -> tuple[Any, Any]:
    from openvino import opset13

    wide = opset13.multiply(numbers, opset13.constant(SPLIT))
    high = opset13.subtract(wide, opset13.subtract(wide, numbers))
    return high, opset13.subtract(numbers, high)


def _shows_in_results(division: Any) -> bool:
    """Whether a quotient's rounding shows in the results: it is truncated, or numbers made of it are amplified."""
    waiting, seen = [division], set()
    while waiting:
        each = waiting.pop()
        for reader in (port.get_node() for port in each.output(0).get_target_inputs()):
            if (each is division and _cuts(reader)) or is_amplified_by(reader):
                return True
            if reader.get_type_name() in PASSES_ON and reader.get_name() not in seen:
                seen.add(reader.get_name())
                waiting.append(reader)
    return False


def _cuts(reader: Any) -> bool:
    kind = reader.get_type_name()
    return kind in CUTS and (kind != "Convert" or bool(reader.get_output_element_type(0).is_integral_number()))


def _follows_from_data(operation: Any) -> bool:
    """Whether a value depends on more than constants and sizes: OpenVINO divides sizes right."""
    waiting, seen = [operation], set()
    while waiting:
        each = waiting.pop()
        name, kind = each.get_name(), each.get_type_name()
        if name in seen or kind == STATES_SIZES:
            continue
        seen.add(name)
        if kind in ("Parameter", "ReadValue"):
            return True
        waiting.extend(port.get_source_output().get_node() for port in each.inputs())
    return False
