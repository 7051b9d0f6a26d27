"""Gives stored vectors the number of axes of what they are added to, where OpenVINO's CPU plugin would end the process.

Compiling divides an integer by zero (seen in OpenVINO 2026.4.1) where integers of 8 bits are widened, a vector that is
stored in 8 bits is added, and axes are added to the result while its first size is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.networks import is_constant

_JOINS = {"Add", "Divide", "Subtract"}
_ADD_AXES = {"Reshape", "Unsqueeze"}
_STORED = {"i8", "u8"}


def give_stored_operands_all_axes(network: Any) -> list[str]:
    """Puts leading axes of size 1 in front of constants stored in 8 bits that have fewer axes than the result.

    Only operands of additions, subtractions and divisions whose result is reshaped are changed.

    Args:
        network: The ``openvino.Model``, changed in place.

    Returns:
        The names of the operations whose operand was changed.
    """
    from openvino import opset13

    changed = []
    for operation in network.get_ordered_ops():
        if operation.get_type_name() not in _JOINS or not _is_reshaped(operation):
            continue
        rank = operation.output(0).get_partial_shape().rank
        for port in operation.inputs():
            operand = port.get_source_output()
            axes = operand.get_partial_shape().rank
            if rank.is_dynamic or axes.is_dynamic or axes == rank or not _is_stored(operand.get_node()):
                continue
            front = np.arange(rank.get_length() - axes.get_length())
            port.replace_source_output(opset13.unsqueeze(operand, opset13.constant(front)).output(0))
            changed.append(operation.get_friendly_name())
    return changed


def _is_reshaped(operation: Any) -> bool:
    readers = operation.output(0).get_target_inputs()
    return any(port.get_node().get_type_name() in _ADD_AXES and port.get_index() == 0 for port in readers)


def _is_stored(node: Any) -> bool:
    """Whether a value is computed from constants, of which the first is stored as integers of 8 bits."""
    if node.get_type_name() == "Constant":
        return node.get_element_type().get_type_name() in _STORED
    sources = [node.input_value(place).get_node() for place in range(node.get_input_size())]
    return bool(sources) and _is_stored(sources[0]) and all(map(is_constant, sources[1:]))
