"""``Clip`` with a limit left out, of values whose type is not known, which ends OpenVINO's frontend.

The frontend (OpenVINO 2026.4) takes the least or greatest number of the value's type for the limit. Behind an operator
that it does not know a value has no type, and it reads memory that is not there.
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.model import Model

LIMITS_AS_INPUTS = 11
"""The operator set from which on the limits are inputs."""


def without_missing_limits(model: Model) -> Model:
    """Returns the model with ``Max``, ``Min`` or ``Identity`` in place of each such ``Clip``; itself if it has none."""
    if not any(_lacks_limit(node, model.opset) for node in model.graph.all_nodes()):
        return model
    graph_model = model.graph_model.clone()
    for node in list(graph_model.graph.all_nodes()):
        if node.graph is not None and _lacks_limit(node, model.opset):
            _replace(node.graph, node)
    return model.with_graph(graph_model)


def _lacks_limit(node: ir.Node, opset: int) -> bool:
    if node.op_type != "Clip" or node.domain or opset < LIMITS_AS_INPUTS:
        return False
    value, *limits = node.inputs
    return value is not None and value.dtype is None and sum(limit is not None for limit in limits) < 2


def _replace(home: ir.Graph | ir.Function, clip: ir.Node) -> None:
    value, *limits = clip.inputs
    kinds = [(kind, limit) for kind, limit in zip(("Max", "Min"), limits, strict=False) if limit is not None]
    made = ir.node(kinds[0][0], [value, kinds[0][1]]) if kinds else ir.node("Identity", [value])
    old, new = clip.outputs[0], made.outputs[0]
    made.name, new.name, new.type, new.shape = clip.name, old.name, old.type, old.shape
    ir.convenience.replace_nodes_and_values(home, clip, [clip], [made], [old], [new])
