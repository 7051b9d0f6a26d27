"""A Softmax or LogSoftmax that was written out in several nodes becomes one operator.

This is done only if the maximum of each row is subtracted before the exponentials, as Softmax itself does. Without
that, the exponentials overflow where Softmax does not.
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.features.written_softmax import written_softmax
from edgekit.graph.building import NodeBuilder
from edgekit.model import node_name

_ONE_AXIS_SINCE = 13


def compute_softmax_at_once(graph_model: ir.Model) -> bool:
    """Replaces the final division or subtraction by the operator; returns whether there were any.

    The nodes it read stay, to be removed later if nothing else reads them.

    Args:
        graph_model: A model of any opset; changed in place from 13 on, where Softmax runs along one axis.
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
    """Whether other nodes than the sum and the division read the exponentials, which are then computed anyway."""
    readers = {reader for reader, _ in powers.uses()}
    return powers.is_graph_output() or any(reader is not node and reader.op_type != "ReduceSum" for reader in readers)
