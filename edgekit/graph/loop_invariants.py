"""Constants that loops carry along as states: the bodies capture them instead."""

from __future__ import annotations

import onnx_ir as ir

BEFORE_STATES = 2
"""Inputs of a Loop ahead of its states, and of its body: the count and the condition."""
CONDITION = 1
"""Outputs of a Loop's body ahead of its states."""


def capture_constant_states(model: ir.Model) -> None:
    """Let the bodies of loops read constants from outside where each round hands them on unchanged, in place.

    Exporters of TensorFlow's ``while_loop`` (tf2onnx) carry the weights of a recurrence as states. A weight is known to
    be constant only where it is captured, and only then stored in a narrower type.
    """
    for graph in (model.graph, *model.graph.subgraphs()):
        for node in list(graph):
            if node.op_type == "Loop" and node.domain in {"", "ai.onnx"}:
                constant = _constant_states(node)
                if constant:
                    _without_states(node, graph, constant)


def _constant_states(loop: ir.Node) -> list[int]:
    """The states, by number, that start as a constant and stay what they are."""
    body = loop.attributes["body"].as_graph()
    return [
        number
        for number, value in enumerate(loop.inputs[BEFORE_STATES:])
        if _is_constant(value)
        and _handed_on(body.outputs[CONDITION + number]) is body.inputs[BEFORE_STATES + number]
        and not loop.outputs[number].is_graph_output()
    ]


def _is_constant(value: ir.Value | None) -> bool:
    return value is not None and not value.is_graph_input() and ir.convenience.get_const_tensor(value) is not None


def _handed_on(value: ir.Value) -> ir.Value | None:
    """What a value is, whatever number of Identity nodes it goes through."""
    found: ir.Value | None = value
    while found is not None and (producer := found.producer()) is not None and producer.op_type == "Identity":
        found = producer.inputs[0]
    return found


def _without_states(loop: ir.Node, graph: ir.Graph, states: list[int]) -> None:
    """Replace a loop by one that captures some of its states' first values."""
    body = loop.attributes["body"].as_graph().clone(allow_outer_scope_values=True)
    inputs, outputs = list(loop.inputs), list(loop.outputs)
    for number in reversed(states):
        first = inputs.pop(BEFORE_STATES + number)
        if first is None:
            raise ValueError(f"state {number} of {loop.name!r} has no first value")
        body.outputs.pop(CONDITION + number)
        body.inputs.pop(BEFORE_STATES + number).replace_all_uses_with(first)
        outputs.pop(number).replace_all_uses_with(first)
    attributes = [each for each in loop.attributes.values() if each.name != "body"]
    shorter = ir.Node(
        loop.domain,
        loop.op_type,
        inputs,
        [*attributes, ir.AttrGraph("body", body)],
        num_outputs=len(outputs),
        name=loop.name,
    )
    ir.convenience.replace_nodes_and_values(graph, loop, [loop], [shorter], outputs, shorter.outputs)
