"""The nodes of a file, and the graphs inside of them: branches, bodies of loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node holds, without those inside of them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def written_nodes(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes of a model's graph and of its functions, without those of subgraphs."""
    return [*proto.graph.node, *(node for function in proto.functions for node in function.node)]


def nodes_inside(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes with those of their subgraphs, in no order."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for graph in graphs_of(node):
            waiting.extend(graph.node)
