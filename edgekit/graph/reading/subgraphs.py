"""The nodes of a file, and their subgraphs: branches and bodies of loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSequence

import onnx


def graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yields the subgraphs of a node, without the subgraphs nested in them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def written_nodes(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes of a model's graph and of its functions, without those of subgraphs."""
    return [*proto.graph.node, *(node for function in proto.functions for node in function.node)]


def nodes_inside(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yields nodes and all nodes in their subgraphs, in no particular order."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for graph in graphs_of(node):
            waiting.extend(graph.node)


def lists_of_nodes(proto: onnx.ModelProto) -> Iterator[MutableSequence[onnx.NodeProto]]:
    """Yields the nodes of each graph and function, inner graphs first."""
    inside = [graph for node in nodes_inside(written_nodes(proto)) for graph in graphs_of(node)]
    yield from (graph.node for graph in reversed(inside))
    yield from (function.node for function in proto.functions)
    yield proto.graph.node
