"""Axes that one number of more axes adds, which OpenVINO 2026.4 loses where it moves the operation.

The CPU plugin computes with a single number before a Transpose, a Reshape or the like in place of behind it
(``MoveEltwiseUpThroughDataMov``), and does not look at how many axes the number has: a list times a number in [1, 1]
stays a list, and what follows works along other axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import put_behind

KINDS = frozenset(
    {"Add", "Divide", "FloorMod", "Maximum", "Minimum", "Mod", "Multiply", "Power", "SquaredDifference", "Subtract"}
)
"""Operations on two tensors that the plugin moves."""


def add_axes_behind(operation: Any) -> bool:
    """Takes the number without its further axes, and adds these to what comes out, in place; values keep their names.

    Args:
        operation: One of :data:`KINDS`.

    Returns:
        Whether there was something to do.
    """
    from openvino import opset13

    shape, number = operation.get_input_partial_shape(0), operation.get_input_partial_shape(1)
    if shape.rank.is_dynamic or number.is_dynamic or any(size.get_length() != 1 for size in number):
        return False
    rank, added = len(shape), len(number) - len(shape)
    if added <= 0:
        return False
    flat = opset13.reshape(operation.input_value(1), opset13.constant(np.ones(rank, np.int64)), special_zero=False)
    operation.input(1).replace_source_output(flat.output(0))
    operation.constructor_validate_and_infer_types()
    put_behind(operation, lambda value: opset13.unsqueeze(value, opset13.constant(np.arange(added))))
    return True
