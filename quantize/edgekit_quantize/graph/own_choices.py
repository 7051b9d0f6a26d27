"""Finds whole decoders inside a graph: their choice is looked up in a table, and the next choice depends on the result.

The decoder's steps are unrolled in the graph, or in the body of a Loop that carries the choice to the next iteration.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit_quantize.graph.nodes import constant, integer, is_standard

BENDS = (
    *("GRU", "LSTM", "RNN", "Softmax", "Attention", "Tanh", "Sigmoid", "Relu", "LeakyRelu"),
    *("Elu", "Erf", "Gelu", "HardSwish", "Mish", "Selu", "Softplus", "Swish"),
)
"""Nonlinear operators, one of which has to lie between two choices of a decoder. Without one, as in residual vector
quantization, only sums and products lead from one choice to the next, and a changed choice leads to nearly the same
results."""
TELLS_SIZES = ("Shape", "Size")


def own_choices(graph: ir.Graph) -> list[str]:
    """The choices of decoders inside the graph, in the graph's order.

    Args:
        graph: The main graph; branches and loops are searched, too.

    Returns:
        The names of the values that hold the choices (:func:`chosen`): those on which another choice depends, and
        those that depend on another choice.
    """
    nodes = [node for node in graph.all_nodes() if chosen(node) is not None]
    if not nodes:
        return []
    holders = {
        attribute.as_graph(): node
        for node in graph.all_nodes()
        for attribute in node.attributes.values()
        if attribute.type is ir.AttributeType.GRAPH
    }
    chained: set[ir.Node] = set()
    for node in nodes:
        later = set(_choices_by(node, holders))
        chained |= {node, *later} if later else later
    return [str(choice.name) for node in nodes if node in chained and (choice := chosen(node)) is not None]


def chosen(node: ir.Node) -> ir.Value | None:
    """The output that holds the class with the greatest score, as its index (ArgMax, TopK of 1) or one-hot (Hardmax).

    None for other nodes. The scores are the node's first input.
    """
    if is_standard(node, "ArgMax", "Hardmax"):
        return node.outputs[0]
    if not is_standard(node, "TopK") or len(node.inputs) < 2 or not integer(node, "largest", 1):
        return None
    count = constant(node.inputs[1])
    return node.outputs[1] if count is not None and count.tolist() in (1, [1]) else None


def axis_of_classes(node: ir.Node) -> int:
    """The axis of the scores along which a node chooses."""
    return integer(node, "axis", 0 if is_standard(node, "ArgMax") else -1)


def _choices_by(chooser: ir.Node, holders: dict[ir.Graph, ir.Node]) -> Iterator[ir.Node]:
    """The nodes that choose by scores that depend on the table entry looked up by another node's choice."""
    choice = chosen(chooser)
    waiting = [] if choice is None else [(choice, is_standard(chooser, "Hardmax"), False)]
    seen = set(waiting)
    while waiting:
        value, looked_up, bent = waiting.pop()
        reached = [(out, looked_up, bent) for out in _around(value, holders)]
        for node, place in value.uses():
            if is_standard(node, *TELLS_SIZES):
                continue
            made = chosen(node)
            if made is not None and looked_up and bent:
                yield node
            bends = bent or (looked_up and is_standard(node, *BENDS))
            finds = looked_up or _looks_up(node, place)
            reached += [(out, finds, bends) for out in (*node.outputs, *_inside(node, place)) if out is not made]
        for state in reached:
            if state not in seen:
                seen.add(state)
                waiting.append(state)


def _looks_up(node: ir.Node, place: int) -> bool:
    if is_standard(node, "OneHot"):
        return place == 0
    return is_standard(node, "Gather") and place == 1 and constant(node.inputs[0]) is not None


def _inside(node: ir.Node, place: int) -> list[ir.Value]:
    """The value inside the body of a Loop that receives the node's input at ``place``; empty for other nodes."""
    if not is_standard(node, "Loop") or place < 2:
        return []
    return [node.attributes["body"].as_graph().inputs[place]]


def _around(value: ir.Value, holders: dict[ir.Graph, ir.Node]) -> list[ir.Value]:
    """The values that receive an output of a branch or a Loop's body: outside of it, and in the next iteration."""
    graph = value.graph
    if not value.is_graph_output() or not isinstance(graph, ir.Graph) or graph not in holders:
        return []
    node, found = holders[graph], []
    for place, output in enumerate(graph.outputs):
        if output is not value:
            continue
        if is_standard(node, "If"):
            found.append(node.outputs[place])
        elif is_standard(node, "Loop") and place > 0:  # the first one tells whether to go on
            found.append(node.outputs[place - 1])
            found += graph.inputs[place + 1 : place + 2]
    return found
