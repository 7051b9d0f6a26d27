"""What a value of a graph depends on."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

_SIZES_ONLY = {"Shape", "Size"}
"""Operators that read no numbers of their inputs."""


def inputs_behind(value: ir.Value) -> set[str]:
    """Returns the names of the inputs on whose numbers a value depends, without inputs whose size alone it reads."""
    found: set[str] = set()
    seen: set[ir.Value] = set()
    waiting: list[ir.Value] = [value]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.is_graph_input() and not value.is_initializer():
            found.add(str(value.name))
        node = value.producer()
        if node is not None and node.op_type not in _SIZES_ONLY:
            waiting += [read for read in _read_by(node) if read is not None]
    return found


def _read_by(node: ir.Node) -> Iterator[ir.Value | None]:
    """Yields what a node and its subgraphs read."""
    yield from node.inputs
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            for inner in attribute.as_graph().all_nodes():
                yield from inner.inputs
