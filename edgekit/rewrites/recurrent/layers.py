"""Recurrent layers in the form that every runtime reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import Rewrite

LAYERS = ("GRU", "LSTM", "RNN")
_INPUTS_OF_STATES = {"GRU": (5,), "RNN": (5,), "LSTM": (5, 6)}


class SequenceFirst(Rewrite):
    """A layer whose batch comes first (``layout`` 1), between transposes."""

    name: ClassVar[str] = "recurrent layer with the sequence first"
    op_types: ClassVar[Sequence[str]] = LAYERS

    def matches(self, node: ir.Node) -> bool:
        """Whether the batch comes first."""
        return node.attributes.get_int("layout", 0) == 1

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """Builds the same layer, with the axes of its inputs and outputs exchanged."""
        inputs = list(node.inputs)
        inputs[0] = build("Transpose", inputs[0], perm=[1, 0, 2])
        for place in _INPUTS_OF_STATES[node.op_type]:
            if place < len(inputs) and inputs[place] is not None:
                inputs[place] = build("Transpose", inputs[place], perm=[1, 0, 2])
        attributes = {name: each.value for name, each in node.attributes.items() if name != "layout"}
        results = build.several(len(node.outputs), node.op_type, *inputs, **attributes)
        orders = ([2, 0, 1, 3], [1, 0, 2], [1, 0, 2])
        return [
            build("Transpose", value, perm=order) if original.uses() or original.is_graph_output() else None
            for value, order, original in zip(results, orders, node.outputs, strict=False)
        ]
