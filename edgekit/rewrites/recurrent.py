"""Recurrent layers in the form that every runtime reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import constant_of, shape_of

LAYERS = ("GRU", "LSTM", "RNN")
_INPUTS_OF_STATES = {"GRU": (5,), "RNN": (5,), "LSTM": (5, 6)}
MOST_STEPS = 512


class SequenceFirst(Rewrite):
    """A layer whose batch comes first (``layout`` 1), between transposes."""

    name: ClassVar[str] = "recurrent layer with the sequence first"
    op_types: ClassVar[Sequence[str]] = LAYERS

    def matches(self, node: ir.Node) -> bool:
        """Whether the batch comes first."""
        return node.attributes.get_int("layout", 0) == 1

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """The same layer; what it reads and makes gets its axes in the other order."""
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


class LSTMSteps(Rewrite):
    """An LSTM with peepholes, its steps written out."""

    name: ClassVar[str] = "LSTM with peepholes written out"
    op_types: ClassVar[Sequence[str]] = ("LSTM",)

    def matches(self, node: ir.Node) -> bool:
        """Peepholes, default activations, and no options that change a step."""
        has_peepholes = len(node.inputs) > 7 and node.inputs[7] is not None
        plain = not {"activations", "clip", "layout"} & set(node.attributes)
        return has_peepholes and plain and node.attributes.get_int("input_forget", 0) == 0

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """By the equations of ONNX's LSTM; gates are stored in the order i, o, f, c."""
        x, w, r, bias, lengths, hidden, cell, peepholes = node.inputs
        steps, batch, _ = shape_of(x)
        known = constant_of(node, 4)
        if lengths is not None and (known is None or not (known == steps).all()):
            raise InapplicableError("sequences have lengths of their own")
        size = node.attributes.get_int("hidden_size")
        if steps > MOST_STEPS:
            raise InapplicableError(f"{steps} steps are too many to be written out")
        direction = node.attributes.get_string("direction", "forward")
        backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        sequences, last_hidden, last_cell = [], [], []
        for number, is_backward in enumerate(backwards):

            def own(value: ir.Value | None, number: int = number) -> ir.Value | None:
                return None if value is None else build("Gather", value, np.int64(number), axis=0)

            zeros = np.zeros((batch, size), np.float32)
            h, c = (own(value) if value is not None else build.constant(zeros) for value in (hidden, cell))
            weights = build("Transpose", own(w), perm=[1, 0])
            recurrent = build("Transpose", own(r), perm=[1, 0])
            offsets = own(bias)
            if offsets is not None:
                offsets = build("Add", *build.split(offsets, 0, [4 * size, 4 * size]))
            p_i, p_o, p_f = build.split(own(peepholes), 0, [size] * 3)
            made: list[ir.Value] = []
            for step in range(steps - 1, -1, -1) if is_backward else range(steps):
                fed = build("MatMul", build("Gather", x, np.int64(step), axis=0), weights)
                gates = build("Add", fed, build("MatMul", h, recurrent))
                gates = gates if offsets is None else build("Add", gates, offsets)
                i, o, f, new = build.split(gates, 1, [size] * 4)
                i = build("Sigmoid", build("Add", i, build("Mul", p_i, c)))
                f = build("Sigmoid", build("Add", f, build("Mul", p_f, c)))
                c = build("Add", build("Mul", f, c), build("Mul", i, build("Tanh", new)))
                o = build("Sigmoid", build("Add", o, build("Mul", p_o, c)))
                h = build("Mul", o, build("Tanh", c))
                made.append(build.unsqueeze(h, [0]))
            whole = build("Concat", *(made[::-1] if is_backward else made), axis=0)
            sequences.append(build.unsqueeze(whole, [1]))
            last_hidden.append(build.unsqueeze(h, [0]))
            last_cell.append(build.unsqueeze(c, [0]))
        axes = zip((sequences, last_hidden, last_cell), (1, 0, 0), strict=True)
        return [build("Concat", *parts, axis=axis) for parts, axis in axes][: len(node.outputs)]
