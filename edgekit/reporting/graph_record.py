"""``graph.json``: the graph that a target built from, without its weights, so that a report needs no model."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from edgekit.model import Model, bodies, node_name, op_name, value_spec

FORMAT = 1
MOST_ITEMS = 16
"""Attributes that are lists are cut after this many items."""
MOST_CHARACTERS = 120
"""Other attributes are cut after this many characters of their text."""


def graph_record(model: Model) -> dict[str, Any]:
    """The graph as ``graph.schema.json`` describes it."""
    return _Writer().record(model.graph)


class _Writer:
    """Writes a graph's record; numbers values and nodes in the order in which it meets them."""

    def __init__(self) -> None:
        self._values: list[dict[str, Any]] = []
        self._places: dict[ir.Value, int] = {}
        self._nodes: list[dict[str, Any]] = []

    def record(self, graph: ir.Graph) -> dict[str, Any]:
        inputs = [self._place(value) for value in graph.inputs if value.name not in graph.initializers]
        self._add_nodes(graph, None)
        outputs = [self._place(value) for value in graph.outputs]
        return {"format": FORMAT, "values": self._values, "nodes": self._nodes, "inputs": inputs, "outputs": outputs}

    def _add_nodes(self, graph: ir.Graph, holder: int | None) -> None:
        for node in graph:
            place = len(self._nodes)
            record: dict[str, Any] = {
                "name": node_name(node),
                "op": op_name(node),
                "inputs": [None if value is None else self._place(value) for value in node.inputs],
                "outputs": [self._place(value) if value.name else None for value in node.outputs],
            }
            if node.attributes:
                record["attributes"] = {name: _attribute_text(value) for name, value in node.attributes.items()}
            if holder is not None:
                record["within"] = holder
            self._nodes.append(record)
            for body in bodies(node):
                self._add_nodes(body, place)

    def _place(self, value: ir.Value) -> int:
        if value not in self._places:
            self._places[value] = len(self._values)
            spec = value_spec(value)
            record: dict[str, Any] = {
                "name": spec.name,
                "dtype": spec.dtype,
                "shape": None if spec.shape is None else list(spec.shape),
            }
            if value.const_value is not None and value.producer() is None:
                record["bytes"] = value.const_value.nbytes
            self._values.append(record)
        return self._places[value]


def _attribute_text(attribute: ir.Attr) -> str:
    match attribute.type:
        case ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            return f"tensor of {tensor.dtype.name.lower()} {list(tensor.shape.numpy())}"
        case ir.AttributeType.GRAPH:
            return f"graph of {len(attribute.as_graph())} nodes"
        case ir.AttributeType.FLOAT:
            return f"{attribute.as_float():.6g}"
        case ir.AttributeType.INTS | ir.AttributeType.FLOATS | ir.AttributeType.STRINGS:
            first = attribute.value[:MOST_ITEMS]
            items = [f"{item:.6g}" if isinstance(item, float) else str(item) for item in first]
            more = ["…"] if len(attribute.value) > MOST_ITEMS else []
            return f"[{', '.join([*items, *more])}]"
    text = str(attribute.value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
