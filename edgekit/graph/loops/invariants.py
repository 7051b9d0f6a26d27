"""Constants that loops carry along as states: the bodies capture them instead."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.loops.values import BEFORE_STATES, CONDITION, source
from edgekit.graph.nodes import is_constant
from edgekit.model import bodies


def capture_constant_states(model: ir.Model) -> bool:
    """Replaces loop states that each iteration passes on unchanged by captured constants, in place.

    Exporters of TensorFlow's ``while_loop`` (tf2onnx) carry the weights of a recurrence as states. A weight is known to
    be constant, and is stored in a narrower type, only if the body captures it.

    Returns:
        Whether there were any.
    """
    return _capture(model.graph)


def _capture(graph: ir.Graph) -> bool:
    changed = False
    for node in list(graph):
        loop = node
        if node.op_type == "Loop" and not node.domain and (constant := _constant_states(node)):
            loop, changed = _without_states(node, graph, constant), True
        for body in bodies(loop):  # a constant that a loop captures is constant for the loops inside it, too
            changed |= _capture(body)
    return changed


def _constant_states(loop: ir.Node) -> list[int]:
    """Returns the indices of states that start as a constant and never change; none if no output would remain."""
    body = loop.attributes["body"].as_graph()
    found = []
    for number, first in enumerate(loop.inputs[BEFORE_STATES:]):
        state, handed_on = body.inputs[BEFORE_STATES + number], body.outputs[CONDITION + number]
        stays = is_constant(first) and source(handed_on) is state
        is_collected = body.outputs.count(state) > (state is handed_on)
        if stays and not is_collected and not loop.outputs[number].is_graph_output():
            found.append(number)
    return found if len(found) < len(loop.outputs) else []


def _without_states(loop: ir.Node, graph: ir.Graph, states: list[int]) -> ir.Node:
    """Replace a loop by one whose body captures the first values of some states."""
    body = loop.attributes["body"].as_graph()
    inputs, outputs = list(loop.inputs), list(loop.outputs)
    for number in reversed(states):
        first = inputs.pop(BEFORE_STATES + number)
        if first is None:
            raise ValueError(f"state {number} of {loop.name!r} has no first value")
        body.outputs.pop(CONDITION + number)
        body.inputs.pop(BEFORE_STATES + number).replace_all_uses_with(first)
        outputs.pop(number).replace_all_uses_with(first)
    attributes = loop.attributes.values()
    shorter = ir.Node(loop.domain, loop.op_type, inputs, attributes, num_outputs=len(outputs), name=loop.name)
    ir.convenience.replace_nodes_and_values(graph, loop, [loop], [shorter], outputs, shorter.outputs)
    return shorter
