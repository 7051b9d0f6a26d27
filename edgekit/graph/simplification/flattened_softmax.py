"""Softmax of a matrix that a tensor was flattened to, and that is reshaped back to the tensor's shape.

ONNX's version converter writes a Softmax of opsets before 13 this way if it does not know the rank. If only the last
axis is separate in the matrix, the Softmax runs along the tensor's last axis.
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.model import node_name

_OPERATORS = frozenset(["Hardmax", "LogSoftmax", "Softmax"])
_ONE_AXIS_SINCE = 13


def compute_softmax_in_place(graph_model: ir.Model) -> bool:
    """Removes Flatten and Reshape around such operators, in place; returns whether there were any."""
    opset, changed = graph_model.opset_imports.get("", 0), False
    if opset < _ONE_AXIS_SINCE:
        return False
    for graph in graph_model.graphs():
        for node in list(graph):
            x = _flattened(node)
            if x is None:
                continue
            build = NodeBuilder(opset, node_name(node))
            softmax = node.inputs[0].producer() if node.inputs[0] is not None else None
            assert softmax is not None, "it was found by way of it"
            result = build(softmax.op_type, x, axis=-1)
            result.type, result.shape = x.type, x.shape
            ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, node.outputs, [result])
            changed = True
    return changed


def _flattened(node: ir.Node) -> ir.Value | None:
    """Returns the tensor whose Softmax along the last axis a Reshape returns, or None for other nodes."""
    if node.op_type != "Reshape" or node.domain or node.inputs[0] is None or node.inputs[1] is None:
        return None
    softmax, sizes = node.inputs[0].producer(), node.inputs[1].producer()
    if softmax is None or softmax.op_type not in _OPERATORS or softmax.domain or softmax.inputs[0] is None:
        return None
    flatten = softmax.inputs[0].producer()
    if flatten is None or flatten.op_type != "Flatten" or flatten.domain or flatten.inputs[0] is None:
        return None
    x = flatten.inputs[0]
    rank = None if x.shape is None else len(x.shape)
    of_x = sizes is not None and sizes.op_type == "Shape" and not sizes.domain and sizes.inputs[0] is x
    plain = of_x and sizes is not None and not sizes.attributes
    along_last = softmax.attributes.get_int("axis", -1) in (-1, 1)
    return x if plain and along_last and flatten.attributes.get_int("axis", 1) in (-1, (rank or 0) - 1) else None
