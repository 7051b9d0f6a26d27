"""What a value of a graph depends on."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit.graph.traversal import reached

_SIZES_ONLY = {"Shape", "Size"}
"""Operators that read no numbers of their inputs."""


def inputs_behind(value: ir.Value) -> set[str]:
    """Returns the names of the inputs on whose numbers a value depends, without inputs whose size alone it reads."""
    values = reached([value], _made_of)
    return {str(value.name) for value in values if value.is_graph_input() and not value.is_initializer()}


def _made_of(value: ir.Value) -> Iterator[ir.Value | None]:
    """Yields the values whose numbers a value is directly computed from."""
    node = value.producer()
    if node is not None and node.op_type not in _SIZES_ONLY:
        yield from _read_by(node)


def _read_by(node: ir.Node) -> Iterator[ir.Value | None]:
    """Yields what a node and its subgraphs read."""
    yield from node.inputs
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            for inner in attribute.as_graph().all_nodes():
                yield from inner.inputs
