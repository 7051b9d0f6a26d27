"""Recurrent layers over sequences of different lengths, by layers without lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.recurrent.layers import LAYERS

LENGTHS = 4
"""The index of a layer's input with the lengths."""


class SequencesOfLengths(Rewrite):
    """Steps behind a sequence's end are computed and left out; for a backward layer, a sequence is reversed first.

    ONNX's RNN, GRU and LSTM give zeros behind the end, and the state at the end as the last state.
    """

    name: ClassVar[str] = "recurrent layer without lengths"
    op_types: ClassVar[Sequence[str]] = LAYERS
    versions: ClassVar[range] = range(11, 1000)

    def matches(self, node: ir.Node) -> bool:
        """Whether there are lengths, the sequence axis comes first, and the last cell of an LSTM is not used."""
        has_lengths = len(node.inputs) > LENGTHS and node.inputs[LENGTHS] is not None
        asks_for_cell = len(node.outputs) > 2 and (node.outputs[2].uses() or node.outputs[2].is_graph_output())
        return has_lengths and not asks_for_cell and node.attributes.get_int("layout", 0) == 0

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """Builds a layer for each direction."""
        x = node.inputs[0]
        lengths = build.cast(node.inputs[LENGTHS], ir.DataType.INT64)
        steps = build("Gather", build("Shape", x), np.int64(0), axis=0)
        places = build.unsqueeze(build("Range", np.int64(0), steps, np.int64(1)), [1, 2, 3])
        ends = build.unsqueeze(lengths, [0, 1, 3])
        is_inside = build("Less", places, ends)
        is_last = build("Equal", places, build("Sub", ends, np.int64(1)))
        direction = node.attributes.get_string("direction", "forward")
        backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        sequences, last = [], []
        for number, is_backward in enumerate(backwards):
            given = _turned(build, x, lengths) if is_backward else x
            made = build("Where", is_inside, _layer(build, node, given, number, len(backwards)), np.float32(0))
            last.append(build.reduce("ReduceSum", build("Where", is_last, made, np.float32(0)), [0], keepdims=False))
            if is_backward:
                made = build.unsqueeze(_turned(build, build.squeeze(made, [1]), lengths), [1])
            sequences.append(made)
        results = [build("Concat", *sequences, axis=1), build("Concat", *last, axis=0)]
        return [*results, None][: len(node.outputs)]


def _turned(build: NodeBuilder, x: ir.Value | None, lengths: ir.Value) -> ir.Value:
    """Returns each sequence of [steps, batch, …] reversed; what is behind its end stays."""
    return build("ReverseSequence", x, lengths, time_axis=0, batch_axis=1)


def _layer(build: NodeBuilder, node: ir.Node, x: ir.Value | None, number: int, directions: int) -> ir.Value:
    """Returns one direction of the layer, forwards: [steps, 1, batch, size].

    Raises:
        InapplicableError: There are two directions, and activations have parameters.
    """
    inputs = [
        None if value is None else build.slice(value, [number], [number + 1], [0]) if directions > 1 else value
        for value in node.inputs
    ]
    inputs[0], inputs[LENGTHS] = x, None
    attributes = {name: each.value for name, each in node.attributes.items() if name != "direction"}
    if directions > 1 and {"activation_alpha", "activation_beta"} & set(attributes):
        raise InapplicableError("its activations have numbers for each direction")
    names = attributes.pop("activations", [])
    if names:
        share = len(names) // directions
        attributes["activations"] = names[number * share : (number + 1) * share]
    return build.several(1, node.op_type, *inputs, **attributes)[0]
