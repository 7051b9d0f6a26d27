"""Small queries on nodes of a graph that many modules use."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir


def input_at(node: ir.Node, place: int) -> ir.Value | None:
    """The value of an input; None if the node leaves the input out."""
    return node.inputs[place] if place < len(node.inputs) else None


def has_input(node: ir.Node, place: int) -> bool:
    """Whether the node has an input at this index."""
    return input_at(node, place) is not None


def constant(value: ir.Value | None) -> np.ndarray | None:
    """What an initializer or a Constant node holds; None for a value that is computed or fed.

    A graph input with an initializer counts as fed: its caller may replace it.
    """
    tensor = _tensor(value)
    return None if tensor is None else tensor.numpy()


def constant_input(node: ir.Node, place: int) -> np.ndarray | None:
    """What a constant input holds; None if the input is computed, fed or left out."""
    return constant(input_at(node, place))


def is_constant(value: ir.Value | None) -> bool:
    """Whether :func:`constant` has an array for the value."""
    return _tensor(value) is not None


def scalar(value: ir.Value | None) -> float | None:
    """The number that a constant with one element holds, whatever its rank; None for other values."""
    tensor = _tensor(value)
    return float(tensor.numpy().reshape(-1)[0]) if tensor is not None and tensor.size == 1 else None


def held_tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """The tensor of an initializer or a Constant node; None for other values.

    For a Constant node ``ir.convenience.get_const_tensor``, which gives the same, checks a protocol method by method,
    which takes 0.1 ms.
    """
    node = value.producer()
    if value.const_value is None and node is not None and node.op_type == "Constant" and not node.domain:
        attribute = node.attributes.get("value")
        if attribute is not None and attribute.type is ir.AttributeType.TENSOR and not attribute.is_ref():
            tensor: ir.TensorProtocol = attribute.value
            return tensor
    return ir.convenience.get_const_tensor(value)


def _tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    return None if value is None or value.is_graph_input() else held_tensor(value)
