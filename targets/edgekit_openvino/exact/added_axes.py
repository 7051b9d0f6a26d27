"""Axes that a single number of higher rank adds to a tensor, which OpenVINO 2026.4 loses where it moves the operation.

The CPU plugin moves an operation on a tensor and a single number from behind a Transpose, a Reshape or the like to
ahead of it (``MoveEltwiseUpThroughDataMov``), and ignores how many axes the number has: a tensor of one axis times a
number of shape [1, 1] keeps one axis, and the operations that follow work along wrong axes.
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
    """Drops the surplus axes of the number and adds them to the result instead, in place; values keep their names.

    Args:
        operation: One of :data:`KINDS`.

    Returns:
        Whether the operation was changed.
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
