"""Sorts nodes into the order in which they are computed: ONNX requires it, ONNX Runtime also runs unsorted graphs."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import onnx

from edgekit.graph.reading.subgraphs import graphs_of


def sort_nodes(graph: onnx.GraphProto) -> bool:
    """Sorts the nodes of the graph and of the graphs in its nodes, in place.

    A graph whose nodes depend on each other in a cycle keeps its order.

    Returns:
        Whether any node stood before one whose output it reads.
    """
    inside = [sort_nodes(inner) for node in graph.node for inner in graphs_of(node)]
    order = _order(graph.node)
    if order is None:
        return any(inside)
    nodes = onnx.GraphProto(node=[graph.node[number] for number in order]).node
    del graph.node[:]
    graph.node.extend(nodes)
    return True


def _order(nodes: Sequence[onnx.NodeProto]) -> list[int] | None:
    """Returns node indices in the first valid order, or None if the nodes are sorted, or have a cycle."""
    maker = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    needs = [{maker[name] for name in read_names(node) if name in maker} for node in nodes]
    if all(other < number for number, others in enumerate(needs) for other in others):
        return None
    readers: list[list[int]] = [[] for _ in nodes]
    for number, others in enumerate(needs):
        for other in others:
            readers[other].append(number)
    missing = [len(others) for others in needs]
    ready = [number for number, count in enumerate(missing) if not count]
    order = []
    while ready:
        number = heapq.heappop(ready)
        order.append(number)
        for reader in readers[number]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(nodes) else None


def read_names(node: onnx.NodeProto) -> Iterator[str]:
    """Yields the names that the node and nodes in its subgraphs read, and the outputs of its subgraphs."""
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        yield from inner.input
        for graph in graphs_of(inner):
            waiting += graph.node
            yield from (value.name for value in graph.output)
