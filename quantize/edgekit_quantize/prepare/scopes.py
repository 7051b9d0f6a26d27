"""Gives values of branches and loops unique names, and moves constants into the branch or loop that reads them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit_quantize.graph.nodes import every_graph, home


def name_values(graph: ir.Graph) -> None:
    """Give every value of branches and loops a unique name.

    ONNX allows the same names in two branches; a lookup by name would then be ambiguous.

    Args:
        graph: The main graph, whose own names stay.
    """
    owners: dict[str, ir.Value] = {}
    for each in every_graph(graph):
        for value in _values(each):
            name = value.name
            if not name:
                continue
            count = 1
            while owners.setdefault(name, value) is not value:
                count += 1
                name = f"{value.name}_{count}"
            if name != value.name:
                value.name = name


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from list(graph.initializers.values())
    for node in graph:
        yield from node.outputs


def sink_constants(graph: ir.Graph) -> int:
    """Move constants that only one branch or loop reads into it; returns how many.

    Runtimes that pass constants into a branch as inputs do not fold them there, and do not recognize them as weights.
    Constants in external data files stay.

    Args:
        graph: The main graph, changed in place.
    """
    holders = {
        attribute.as_graph(): node
        for node in graph.all_nodes()
        for attribute in node.attributes.values()
        if attribute.type is ir.AttributeType.GRAPH
    }

    def around(inner: ir.Graph) -> list[ir.Graph]:
        """The graphs from the main graph down to ``inner``."""
        path = [inner]
        while path[0] in holders:
            path.insert(0, home(holders[path[0]]))
        return path

    moved = 0
    for each in every_graph(graph):
        for name, value in list(each.initializers.items()):
            if value.is_graph_input() or value.is_graph_output() or isinstance(value.const_value, ir.ExternalTensor):
                continue
            paths = [around(home(node)) for node, _ in value.uses()]
            shared = [same[0] for same in zip(*paths, strict=False) if all(other is same[0] for other in same)]
            if shared and shared[-1] is not each:
                each.initializers.pop(name)
                shared[-1].register_initializer(value)
                moved += 1
    return moved
