"""Finds decoders that lie in a graph as a whole: what they choose is looked up, and the next choice is made by it.

The steps stand one after the other, or in the body of a Loop that carries the choice from round to round.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit_quantize.graph.nodes import constant, is_standard

BENDS = (
    *("GRU", "LSTM", "RNN", "Softmax", "Attention", "Tanh", "Sigmoid", "Relu", "LeakyRelu"),
    *("Elu", "Erf", "Gelu", "HardSwish", "Mish", "Selu", "Softplus", "Swish"),
)
"""A quantizer of vectors goes from one choice to the next by sums and products alone, and what follows from a choice
that changes is nearly the same."""
TELLS_SIZES = ("Shape", "Size")


def own_choices(graph: ir.Graph) -> list[str]:
    """The numbers of classes that a decoder in the graph goes on with, in the graph's order.

    Args:
        graph: The main graph; branches and loops are searched, too.

    Returns:
        Names of ArgMax's outputs; those that another choice is made by, and that choice.
    """
    nodes = [node for node in graph.all_nodes() if is_standard(node, "ArgMax")]
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
        later = set(_choices_by(node.outputs[0], holders))
        chained |= {node, *later} if later else later
    return [str(node.outputs[0].name) for node in nodes if node in chained]


def _choices_by(choice: ir.Value, holders: dict[ir.Graph, ir.Node]) -> Iterator[ir.Node]:
    """The ArgMax nodes whose scores depend on what a choice is looked up as."""
    waiting = [(choice, False, False)]
    seen = set(waiting)
    while waiting:
        value, looked_up, bent = waiting.pop()
        reached = [(out, looked_up, bent) for out in _around(value, holders)]
        for node, place in value.uses():
            if is_standard(node, *TELLS_SIZES):
                continue
            if is_standard(node, "ArgMax"):
                if looked_up and bent:
                    yield node
                continue
            bends = bent or (looked_up and is_standard(node, *BENDS))
            finds = looked_up or _looks_up(node, place)
            reached += [(out, finds, bends) for out in (*node.outputs, *_inside(node, place))]
        for state in reached:
            if state not in seen:
                seen.add(state)
                waiting.append(state)


def _looks_up(node: ir.Node, place: int) -> bool:
    if is_standard(node, "OneHot"):
        return place == 0
    return is_standard(node, "Gather") and place == 1 and constant(node.inputs[0]) is not None


def _inside(node: ir.Node, place: int) -> list[ir.Value]:
    """What the body of a Loop calls one of the node's inputs."""
    if not is_standard(node, "Loop") or place < 2:
        return []
    return [node.attributes["body"].as_graph().inputs[place]]


def _around(value: ir.Value, holders: dict[ir.Graph, ir.Node]) -> list[ir.Value]:
    """What an output of a branch or of a Loop's body is behind it, and in the next round."""
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
