"""Recurrent layers in the form that every runtime reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import constant_of, shape_of

LAYERS = ("GRU", "LSTM", "RNN")
_INPUTS_OF_STATES = {"GRU": (5,), "RNN": (5,), "LSTM": (5, 6)}
DEFAULT_ACTIVATIONS = ("sigmoid", "tanh", "tanh")
"""Of an LSTM's gates, of its new state, of its output, for each direction."""


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


class LSTMScan(Rewrite):
    """An LSTM with peepholes as a Scan over its steps, which may be written out then."""

    name: ClassVar[str] = "LSTM with peepholes as a scan"
    op_types: ClassVar[Sequence[str]] = ("LSTM",)

    def matches(self, node: ir.Node) -> bool:
        """Peepholes, default activations, and no options that change a step."""
        has_peepholes = len(node.inputs) > 7 and node.inputs[7] is not None
        plain = not {"clip", "layout"} & set(node.attributes)
        activations = node.attributes.get_strings("activations", ())
        default = all(name.lower() == own for name, own in zip(activations, cycle(DEFAULT_ACTIVATIONS), strict=False))
        return has_peepholes and plain and default and node.attributes.get_int("input_forget", 0) == 0

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """By the equations of ONNX's LSTM; gates are stored in the order i, o, f, c."""
        x, *_, lengths, hidden, cell, _ = node.inputs
        steps, batch, features = shape_of(x)
        known = constant_of(node, 4)
        if lengths is not None and (known is None or not (known == steps).all()):
            raise InapplicableError("sequences have lengths of their own")
        size = node.attributes.get_int("hidden_size")
        learned = _learned(node)
        direction = node.attributes.get_string("direction", "forward")
        backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        sequences, last_hidden, last_cell = [], [], []
        for number, is_backward in enumerate(backwards):

            def own(value: ir.Value | None, number: int = number) -> ir.Value | None:
                return None if value is None else build("Gather", value, np.int64(number), axis=0)

            zeros = np.zeros((batch, size), np.float32)
            h, c = (own(value) if value is not None else build.constant(zeros) for value in (hidden, cell))
            body = _lstm_step(build.inner("Scan"), (batch, features, size), learned, number)
            backward = [int(is_backward)]
            final_hidden, final_cell, whole = build.several(
                3,
                "Scan",
                h,
                c,
                x,
                body=body,
                num_scan_inputs=1,
                scan_input_directions=backward,
                scan_output_directions=backward,
            )
            sequences.append(build.unsqueeze(whole, [1]))
            last_hidden.append(build.unsqueeze(final_hidden, [0]))
            last_cell.append(build.unsqueeze(final_cell, [0]))
        axes = zip((sequences, last_hidden, last_cell), (1, 0, 0), strict=True)
        return [build("Concat", *parts, axis=axis) for parts, axis in axes][: len(node.outputs)]


def _learned(node: ir.Node) -> list[np.ndarray]:
    """Weights, recurrent weights, peepholes and biases of an LSTM, as ONNX stores them.

    Raises:
        InapplicableError: They are no constants.
    """
    found = [constant_of(node, place) for place in (1, 2, 7)]
    weights = found[0]
    if node.inputs[3] is None and weights is not None:
        found.append(np.zeros((len(weights), 2 * weights.shape[1]), weights.dtype))
    else:
        found.append(constant_of(node, 3))
    known = [array for array in found if array is not None]
    if len(known) < len(found):
        raise InapplicableError("its weights are no constants")
    return known


def _lstm_step(
    build: NodeBuilder, sizes: tuple[int, int, int], learned: Sequence[np.ndarray], direction: int
) -> ir.Graph:
    """One step of an LSTM with peepholes.

    Args:
        build: A builder for the body of a Scan.
        sizes: Of the batch, of the features of a step, of the state.
        learned: What :func:`_learned` gives.
        direction: Its number.
    """
    batch, features, size = sizes
    weights, recurrent, peepholes, bias = (each[direction] for each in learned)
    h, c = (ir.val(name, ir.DataType.FLOAT, (batch, size)) for name in ("hidden", "cell"))
    x = ir.val("step", ir.DataType.FLOAT, (batch, features))
    total = build("Add", build("MatMul", x, np.transpose(weights)), build("MatMul", h, np.transpose(recurrent)))
    total = build("Add", total, bias[: 4 * size] + bias[4 * size :])
    p_i, p_o, p_f = np.split(peepholes, 3)
    i, o, f, new = build.split(total, 1, [size] * 4)
    i = build("Sigmoid", build("Add", i, build("Mul", p_i, c)))
    f = build("Sigmoid", build("Add", f, build("Mul", p_f, c)))
    next_cell = build("Add", build("Mul", f, c), build("Mul", i, build("Tanh", new)))
    o = build("Sigmoid", build("Add", o, build("Mul", p_o, next_cell)))
    next_hidden = build("Mul", o, build("Tanh", next_cell))
    return build.graph([h, c, x], [next_hidden, next_cell, build("Identity", next_hidden)])
