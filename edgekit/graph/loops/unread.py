"""Removal of loop states and collected values that nothing reads."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgekit.graph.loops.values import BEFORE_STATES, CONDITION
from edgekit.graph.traversal import reached
from edgekit.model import bodies, read_by


def drop_unread_states(model: ir.Model) -> bool:
    """Removes from loops the states and collected values on which no output and no condition depends, in place.

    Exporters carry along everything that a loop's body assigns (Paddle's ``while_loop``). Such a state may start in
    another shape than it continues in, which no target accepts.

    Returns:
        Whether there were any.
    """
    changed = _drop(model.graph)
    if changed:
        RemoveUnusedNodesPass()(model)
    return changed


def _drop(graph: ir.Graph) -> bool:
    changed = False
    for node in list(graph):
        loop = node
        if node.op_type == "Loop" and not node.domain and (unread := _unread(node)):
            loop, changed = _without(node, graph, unread), True
        for body in bodies(loop):
            changed |= _drop(body)
    return changed


def _unread(loop: ir.Node) -> list[int]:
    """Returns the indices of outputs that can be removed with their states; none if no output would remain."""
    body = loop.attributes["body"].as_graph()
    states = body.inputs[BEFORE_STATES:]
    read = {place for place, value in enumerate(loop.outputs) if value.uses() or value.is_graph_output()}
    while True:
        needed = _needed([body.outputs[CONDITION - 1], *(body.outputs[CONDITION + place] for place in read)])
        found = read | {place for place, state in enumerate(states) if state in needed}
        if found == read:
            break
        read = found
    return [place for place in range(len(loop.outputs)) if place not in read] if read else []


def _needed(values: Iterable[ir.Value]) -> set[ir.Value]:
    """Returns the given values and all values that they are computed from."""

    def made_of(value: ir.Value) -> Iterable[ir.Value]:
        node = value.producer()
        return () if node is None else read_by(node)

    return set(reached(values, made_of))


def _without(loop: ir.Node, graph: ir.Graph, unread: list[int]) -> ir.Node:
    """Replaces a loop by one without some of its outputs and the states that belong to them."""
    body = loop.attributes["body"].as_graph()
    inputs, outputs = list(loop.inputs), list(loop.outputs)
    states = len(body.inputs) - BEFORE_STATES
    own = [body.inputs[BEFORE_STATES + place] for place in unread if place < states]
    for place in reversed(unread):
        outputs.pop(place)
        body.outputs.pop(CONDITION + place)
        if place < states:
            inputs.pop(BEFORE_STATES + place)
    _clear(body)
    for state in own:
        body.inputs.remove(state)
    attributes = loop.attributes.values()
    shorter = ir.Node(loop.domain, loop.op_type, inputs, attributes, num_outputs=len(outputs), name=loop.name)
    ir.convenience.replace_nodes_and_values(graph, loop, [loop], [shorter], outputs, shorter.outputs)
    return shorter


def _clear(body: ir.Graph) -> None:
    """Remove the nodes whose results nothing reads, the last ones first."""
    for node in reversed(list(body)):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            body.remove(node, safe=True)
