"""Gives outputs of the model that bodies read another name inside the model.

If a branch, or a loop's body, reads an outer value that has the name of one of the model's outputs, OpenVINO's frontend
treats it as a result of the body (seen in 2026.4.1): branches return what they read, and within another body the
frontend refuses them ("then_results.size() == else_results.size()").
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.model import Model, bodies

INSIDE = "edgekit/inside/"


def named_apart(model: Model) -> Model:
    """Returns the model with outputs that are copies of what bodies read, or itself if bodies read none."""
    if not _read_inside(model.graph):
        return model
    graph_model = model.graph_model.clone()
    graph = graph_model.graph
    read = _read_inside(graph)
    for place, value in enumerate(graph.outputs):
        if value not in read:
            continue
        copy = ir.node("Identity", [value])
        copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
        copy.outputs[0].name, value.name = value.name, f"{INSIDE}{value.name}"
        graph.append(copy)
        graph.outputs[place] = copy.outputs[0]
    return model.with_graph(graph_model)


def _read_inside(graph: ir.Graph) -> set[ir.Value]:
    """The outputs of the model that a body reads."""
    outputs = {value for value in graph.outputs if value.producer() is not None}
    inner = [body for node in graph for body in bodies(node)]
    return {value for body in inner for node in body.all_nodes() for value in node.inputs if value in outputs}
