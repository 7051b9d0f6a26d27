"""Small queries and edits of an ONNX graph, shared by all parts of the quantizer.

``constant`` and ``scalar`` are re-exported from :mod:`edgekit.graph.nodes`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from edgekit.graph.nodes import constant as constant
from edgekit.graph.nodes import scalar as scalar


def is_standard(node: ir.Node, *op_types: str) -> bool:
    """Whether the node is one of these operators of the standard domain."""
    return node.domain in {"", "ai.onnx"} and node.op_type in op_types


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """The value's shape; None unless every dimension is a number."""
    if value is None or value.shape is None or not value.shape.is_static():
        return None
    return tuple(int(dim) for dim in value.shape.numpy())


def integer(node: ir.Node, name: str, default: int) -> int:
    """An integer attribute of the node, or ``default`` if it is not set."""
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()


def only_consumer(value: ir.Value) -> ir.Node | None:
    """The only node that reads the value, once; None if there are more uses, or the value is a graph output.

    A reader in a branch or a loop of the value's graph does not count: it may run many times, or never.
    """
    uses = tuple(value.uses())
    if len(uses) != 1 or value.is_graph_output():
        return None
    node = uses[0][0]
    return node if node.graph is value.graph else None


def every_graph(graph: ir.Graph) -> list[ir.Graph]:
    """The graph, and those of its branches and loops, at any depth."""
    return [graph, *graph.subgraphs()]


def home(of: ir.Node | ir.Value) -> ir.Graph:
    """The graph that contains a node or a value."""
    graph = of.graph
    if not isinstance(graph, ir.Graph):
        raise ValueError(f"{of.name!r} stands in no graph")
    return graph


def initializers(graph: ir.Graph) -> dict[str, ir.Value]:
    """The constants of the graph and of its branches and loops, by name; names are unique in a prepared model."""
    return {name: value for each in every_graph(graph) for name, value in each.initializers.items()}


def used_names(graph: ir.Graph) -> set[str]:
    """Every value name of the graph and its subgraphs."""
    names = {value.name or "" for value in (*graph.inputs, *graph.initializers.values())}
    for node in graph.all_nodes():
        names.update(value.name or "" for value in node.outputs)
        for attribute in node.attributes.values():
            if attribute.type is ir.AttributeType.GRAPH:
                inner = attribute.as_graph()
                names.update(value.name or "" for value in (*inner.inputs, *inner.initializers.values()))
    return names


class Names:
    """Gives out value names that the graph, its branches and its loops do not use yet.

    Args:
        graph: The main graph.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self._graphs = every_graph(graph)
        self._used = used_names(graph)

    def fresh(self, wish: str) -> str:
        """``wish`` itself, or ``wish`` with a number appended if it is taken.

        Names of constants that were registered since this object was created count as taken, too.
        """
        name, count = wish, 1
        while name in self._used or any(name in graph.initializers for graph in self._graphs):
            name, count = f"{wish}_{count}", count + 1
        self._used.add(name)
        return name


def add_initializer(graph: ir.Graph, name: str, array: np.ndarray, dtype: ir.DataType | None = None) -> ir.Value:
    """A new initializer of the graph; ``name`` must be free."""
    tensor = ir.Tensor(array, dtype=dtype, name=name)  # ir.tensor() checks protocols, method by method
    value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.register_initializer(value)
    return value


def bypass(node: ir.Node, value: ir.Value) -> None:
    """Let the readers of the node's output read ``value``, and remove the node."""
    node.outputs[0].replace_all_uses_with(value)
    home(node).remove(node, safe=True)


def remove_unread(nodes: Iterable[ir.Node]) -> None:
    """Remove the nodes whose outputs are not read any more."""
    for node in nodes:
        if node.graph is not None and not any(v.uses() or v.is_graph_output() for v in node.outputs):
            home(node).remove(node, safe=True)
