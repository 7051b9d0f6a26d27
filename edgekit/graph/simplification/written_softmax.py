"""A Softmax or LogSoftmax that was written out, as one operator.

Only where the largest number is taken from each row ahead of the exponentials, as Softmax itself does: without, they
overflow where it does not.
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.features.written_softmax import written_softmax
from edgekit.graph.building import NodeBuilder
from edgekit.model import node_name

_ONE_AXIS_SINCE = 13


def compute_softmax_at_once(graph_model: ir.Model) -> bool:
    """Puts the operator in place of the node that divides or subtracts last; says whether there were any.

    What it read is left to be removed where nothing else reads it.

    Args:
        graph_model: Of any operator set; changed in place from 13 on, where Softmax goes along one axis.
    """
    opset, changed = graph_model.opset_imports.get("", 0), False
    if opset < _ONE_AXIS_SINCE:
        return False
    for graph in graph_model.graphs():
        for node in list(graph):
            written = written_softmax(node)
            if written is None or not written.is_shifted or _is_read_by_others(node, written.powers):
                continue
            build = NodeBuilder(opset, node_name(node))
            result = build(written.op_type, written.source, axis=written.axis)
            result.type, result.shape = node.outputs[0].type, node.outputs[0].shape
            ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, node.outputs, [result])
            changed = True
    return changed


def _is_read_by_others(node: ir.Node, powers: ir.Value) -> bool:
    """Whether anything but the sum and the division reads the exponentials, which would be computed all the same."""
    readers = {reader for reader, _ in powers.uses()}
    return powers.is_graph_output() or any(reader is not node and reader.op_type != "ReduceSum" for reader in readers)
