"""Loop states that grow although the body states their first size."""

from __future__ import annotations

import onnx_ir as ir


def forget_first_sizes(graph_model: ir.Model) -> bool:
    """Makes sizes of 0 unknown, in place, that a loop's body has for a state at its input and not at its output.

    TorchScript's exporter declares a list that is empty at first with the shape that it starts with.

    Returns:
        Whether there was one.
    """
    found = False
    graphs = (graph_model.graph, *(function.graph for function in graph_model.functions.values()))
    for node in (node for graph in graphs for node in graph.all_nodes()):
        if node.op_type != "Loop" or node.domain:
            continue
        body = node.attributes["body"].as_graph()
        for entry, result in zip(body.inputs[2:], body.outputs[1:], strict=False):
            if entry.shape is None or 0 not in entry.shape:
                continue
            out = result.shape if result.shape is not None and len(result.shape) == len(entry.shape) else None
            grows = [dim == 0 and (out is None or out[axis] != 0) for axis, dim in enumerate(entry.shape)]
            if any(grows) and result is not entry:
                entry.shape = ir.Shape([None if grow else dim for dim, grow in zip(entry.shape, grows, strict=True)])
                found = True
    return found
