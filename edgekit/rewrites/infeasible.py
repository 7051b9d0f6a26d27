"""Branches that no run can take at the model's fixed shapes: a speech model's other sampling rate, say.

ONNX Runtime refuses the whole graph for such a branch once it sees the shapes, although no condition may ask for it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.execution.reference import is_executable
from edgekit.model import Model, node_name


def without_infeasible_branch(model: Model) -> tuple[Model, str] | None:
    """Returns the model with the branch replaced that keeps ONNX Runtime from loading it, and a warning.

    If the condition asks for the replaced branch, the floating-point outputs are NaN; the original fails there.

    Args:
        model: A model that ONNX Runtime does not load. It is not changed.

    Returns:
        The changed model and the warning, or None if the model does not load without one of its branches either, or if
        a branch gives other than floating-point tensors of known shapes.
    """
    for position, node in enumerate(model.graph):
        if node.op_type != "If" or node.domain:
            continue
        for branch, other in (("then_branch", "else_branch"), ("else_branch", "then_branch")):
            stand_ins = _nothing_like(node.attributes[other].as_graph())
            if stand_ins is None:
                continue
            copy = model.graph_model.clone()
            _replace(copy.graph[position], branch, stand_ins)
            changed = model.with_graph(copy)
            if is_executable(changed):
                when = "true" if branch == "then_branch" else "false"
                return changed, (
                    f"If {node_name(node)!r}: the branch for a condition that is {when} cannot run with the fixed "
                    "input shapes and is left out; where the condition asks for it, the outputs are NaN"
                )
    return None


def _nothing_like(graph: ir.Graph) -> list[np.ndarray] | None:
    """Returns NaN in the shapes of a branch's outputs, or None if one is not floating-point, or has no known shape."""
    if any(
        value.shape is None or not value.shape.is_static() or value.dtype is None or not value.dtype.is_floating_point()
        for value in graph.outputs
    ):
        return None
    return [
        np.full(value.shape.numpy(), np.nan, value.dtype.numpy())
        for value in graph.outputs
        if value.shape is not None and value.dtype is not None
    ]


def _replace(node: ir.Node, branch: str, arrays: list[np.ndarray]) -> None:
    """Makes a branch give constants."""
    constants = [ir.node("Constant", [], attributes={"value": ir.tensor(array)}) for array in arrays]
    outputs = node.attributes[branch].as_graph().outputs
    for number, (constant, old, array) in enumerate(zip(constants, outputs, arrays, strict=True)):
        value = constant.outputs[0]
        value.name = old.name or f"{node_name(node)}_{branch}_{number}"
        value.shape, value.dtype = ir.Shape(array.shape), ir.DataType.from_numpy(array.dtype)
        constant.name = f"{value.name}_left_out"
    graph = ir.Graph([], [constant.outputs[0] for constant in constants], nodes=constants, name=branch)
    node.attributes[branch] = ir.AttrGraph(branch, graph)
