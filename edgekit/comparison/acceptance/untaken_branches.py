"""Branches of an If that no sample takes: what was built of them is compared with nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from edgekit.data.samples import Samples
from edgekit.execution.recurrence import reference_of
from edgekit.graph.cost import node_macs
from edgekit.graph.dependence import inputs_behind
from edgekit.model import Model, node_name

_BRANCHES = {True: "then_branch", False: "else_branch"}


def untaken_branches(model: Model, samples: Samples) -> list[str]:
    """Returns warnings of If branches that hold layers and that no sample takes.

    Only conditions that depend on values of the inputs count: conditions on sizes alone are the same in every run of a
    bundle with these sizes. Inner branches are not looked at.

    Args:
        model: The original; it is executed once more, if it has such branches.
        samples: What it is compared on.
    """
    choices = [
        (node, str(node.inputs[0].name), condition)
        for node in model.graph
        if node.op_type == "If" and not node.domain and node.inputs[0] is not None and inputs_behind(node.inputs[0])
        for condition, branch in _BRANCHES.items()
        if any(node_macs(inner) != 0 for inner in node.attributes[branch].as_graph().all_nodes())
    ]
    taken = _taken(model, {name for _, name, _ in choices}, samples) if choices else set()
    return [
        f"no sample takes the {_BRANCHES[condition]} of If {node_name(node)!r} ({_described(node, model)} is "
        f"{str(not condition).lower()} in all of them): its conversion was not tested; give samples that take it"
        for node, name, condition in choices
        if (name, condition) not in taken
    ]


def _described(node: ir.Node, model: Model) -> str:
    """Returns the condition, and the input that it depends on, if that is one of the model's several."""
    condition = node.inputs[0]
    assert condition is not None  # an If has one
    name = str(condition.name)
    behind = inputs_behind(condition)
    if len(behind) != 1 or len(model.inputs) == 1 or name in behind:
        return repr(name)
    return f"{name!r}, which follows the input {behind.pop()!r},"


def _taken(model: Model, names: set[str], samples: Samples) -> set[tuple[str, bool]]:
    """Returns the values that conditions, by their names, have on the samples."""
    reference = reference_of(_with_conditions(model, names))
    found: set[tuple[str, bool]] = set()
    for sample in samples:
        values: Mapping[str, np.ndarray] = {**sample.feeds, **reference.run(sample.feeds)}
        found |= {(name, bool(np.any(values[name]))) for name in names}
        if len(found) == len(names) * len(_BRANCHES):
            break
    return found


def _with_conditions(model: Model, names: set[str]) -> Model:
    """Returns the model with the conditions as further outputs."""
    copy = model.graph_model.clone()
    values = ir.convenience.create_value_mapping(copy.graph, include_subgraphs=False)
    for name in sorted(names):
        value = values[name]
        if not value.is_graph_output() and not value.is_graph_input():
            value.dtype = ir.DataType.BOOL
            copy.graph.outputs.append(value)
    return model.with_graph(copy)
