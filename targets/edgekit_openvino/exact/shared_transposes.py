"""Transposed sequences that a recurrent operation and something else read.

The CPU plugin (2026.4) fuses a Transpose of the first two axes into the recurrent operation, which then reads what
is not transposed. It merges Transposes of one tensor, and whatever else reads the merged one then reads numbers
that are not transposed: a second recurrent operation, a Concat, an output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import hand_over

SEQUENCES = ("GRUSequence", "LSTMSequence", "RNNSequence")
ORDER = [1, 0, 2]


def part_transposes(network: Any) -> None:
    """Gives all readers but one recurrent operation a Transpose of another form, in place; values keep their names."""
    for operation in network.get_ordered_ops():
        root = _root(operation.input_value(0)) if operation.get_type_name() in SEQUENCES else None
        for node in [] if root is None else _transposed(root):
            readers = [reader for reader in node.output(0).get_target_inputs() if not _is_own(reader, operation)]
            if readers:
                hand_over(node.output(0), _in_four_axes(root), readers)


def _root(value: Any) -> Any:
    """Returns the tensor that a value is the Transpose of; None if it is none, as where two Transposes cancel out."""
    is_transposed = False
    while _swaps_first_axes(value.get_node()):
        value, is_transposed = value.get_node().input_value(0), not is_transposed
    return value if is_transposed else None


def _transposed(root: Any) -> list[Any]:
    """Returns the operations that give the root transposed: those at the end of one Transpose of it, or three."""
    found = [reader.get_node() for reader in root.get_target_inputs() if _swaps_first_axes(reader.get_node())]
    back = [reader.get_node() for node in found for reader in node.output(0).get_target_inputs()]
    return [*found, *(node for each in back if _swaps_first_axes(each) for node in _transposed(each.output(0)))]


def _is_own(reader: Any, operation: Any) -> bool:
    """Whether a reader is the first input of the operation, or a Transpose that undoes the first one."""
    node = reader.get_node()
    is_first = reader.get_index() == 0 and node.get_name() == operation.get_name()
    return bool(is_first) or _swaps_first_axes(node)


def _swaps_first_axes(node: Any) -> bool:
    if node.get_type_name() != "Transpose" or node.input_value(1).get_node().get_type_name() != "Constant":
        return False
    shape = node.get_input_partial_shape(0)
    if list(node.input_value(1).get_node().get_data().ravel()) != ORDER or shape.rank.is_dynamic:
        return False
    return all(size.is_dynamic or size.get_length() != 1 for size in (shape[0], shape[1]))


def _in_four_axes(source: Any) -> Any:
    """Returns the source with its first axes swapped; an axis added in front would look like a shuffle of channels."""
    from openvino import opset13

    last = opset13.constant(np.array([3], np.int64))
    longer = opset13.unsqueeze(source, last)
    moved = opset13.transpose(longer, opset13.constant(np.array([1, 0, 2, 3], np.int64)))
    return opset13.squeeze(moved, last).output(0)
