"""Random numbers that a model multiplies by zero: a speech model that was exported with a noise scale of 0."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, node_name

_LIKE = frozenset({"RandomNormalLike", "RandomUniformLike"})
_SIZED = frozenset({"RandomNormal", "RandomUniform"})
_KEEPS_ZERO = frozenset(
    {"Cast", "Expand", "Identity", "Mul", "Neg", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Operators whose output is zero where their first input is, for Mul where either input is."""


def without_cancelled_draws(model: Model) -> tuple[Model, list[str]]:
    """Returns the model with zeros in place of random numbers that only reach products with zero.

    Args:
        model: The model, which is not changed.

    Returns:
        The model, and the names of the nodes of the main graph that drew the numbers.
    """
    if not any(_draws_for_nothing(node) for node in model.graph):
        return model, []
    copy = model.graph_model.clone()
    cancelled = []
    for node in [node for node in copy.graph if _draws_for_nothing(node)]:
        build = NodeBuilder(model.opset, node_name(node))
        zeros = _zeros(node, build)
        for value in build.initializers:
            copy.graph.register_initializer(value)
        ir.convenience.replace_nodes_and_values(copy.graph, node, [node], build.nodes, [node.outputs[0]], [zeros])
        cancelled.append(node_name(node))
    return infer_shapes(model.with_graph(copy), strict=False), cancelled


def _draws_for_nothing(node: ir.Node) -> bool:
    drawn = not node.domain and node.op_type in _LIKE | _SIZED
    return drawn and node.outputs[0].dtype is not None and _is_cancelled(node.outputs[0])


def _is_cancelled(value: ir.Value) -> bool:
    """Whether all readers of a value multiply it by zero, or keep zeros and are themselves cancelled."""
    uses = value.uses()
    if not uses or value.is_graph_output():
        return False
    return all(_cancels(node, place) for node, place in uses)


def _cancels(node: ir.Node, place: int) -> bool:
    if node.domain or node.op_type not in _KEEPS_ZERO or (place != 0 and node.op_type != "Mul"):
        return False
    if node.op_type == "Mul":
        other = constant(node.inputs[1 - place])
        if other is not None and other.size and not other.any():
            return True
    return _is_cancelled(node.outputs[0])


def _zeros(node: ir.Node, build: NodeBuilder) -> ir.Value:
    dtype = node.outputs[0].dtype
    assert dtype is not None
    sizes = build("Shape", node.inputs[0]) if node.op_type in _LIKE else list(node.attributes.get_ints("shape"))
    return build("Expand", np.zeros((), dtype.numpy()), sizes)
