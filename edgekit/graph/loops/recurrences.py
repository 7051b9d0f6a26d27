"""Loops that compute a recurrent layer step by step: each becomes the layer's node.

Exporters of Keras (tf2onnx) write the layer as TensorFlow computes it, cell by cell in a ``while_loop``. Runtimes have
an operator for the layer, or else a loop of known length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgekit.graph.building import NodeBuilder
from edgekit.graph.loops.affine_forms import MOST_FEATURES
from edgekit.graph.loops.grus import gru_cells
from edgekit.graph.loops.lstms import lstm_cells
from edgekit.graph.loops.recurrent_cells import Cell, Rows, Weights
from edgekit.graph.loops.rnns import rnn_cells
from edgekit.graph.loops.trip_counts import ends_by_count
from edgekit.graph.loops.values import (
    BEFORE_STATES,
    CONDITION,
    LoopValues,
    Size,
    constant_of,
    size_of,
    source,
    whole_number,
)
from edgekit.model import node_name

FEATURES_AXIS = 2
"""Axis of the features in a sequence [steps, batch, features]."""
_KINDS: Sequence[Callable[[LoopValues], Iterator[Cell]]] = (lstm_cells, gru_cells, rnn_cells)
_ALL = "all"
"""Marks an output of the loop that collects the outputs of all steps."""


def recognize_recurrences(model: ir.Model) -> bool:
    """Replaces loops that compute an LSTM, a GRU or an RNN, in place; returns whether there were any.

    If so, values that depend on the shapes of their outputs may be known, also those that further loops depend on.
    """
    changed = False
    for graph in list(model.graphs()):
        for node in list(graph):
            if node.op_type == "Loop" and not node.domain and ends_by_count(node):
                changed |= _replace(node, graph, model.opset_imports.get("", 0))
    if changed:
        RemoveUnusedNodesPass()(model)
    return changed


def _replace(loop: ir.Node, graph: ir.Graph, opset: int) -> bool:
    values = LoopValues(loop)
    for cell in (cell for kind in _KINDS for cell in kind(values)):
        recurrence = _Recurrence(loop, values, cell, opset)
        if (results := recurrence.results()) is not None:
            build = recurrence.build
            for value in build.initializers:
                graph.register_initializer(value)
            used = [(old, new) for old, new in zip(loop.outputs, results, strict=True) if new is not None]
            graph.insert_before(loop, build.nodes)
            for old, new in used:
                new.type, new.shape = old.type, new.shape or old.shape
                if old.is_graph_output():
                    old.name, new.name = None, old.name
                ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
            graph.remove(loop, safe=True)
            return True
    return False


class _Recurrence:
    """A cell, and what the loop feeds to it.

    Args:
        loop: The node.
        values: What the values in its body are.
        cell: The cell that was found in the body.
        opset: The version of the standard operators.
    """

    def __init__(self, loop: ir.Node, values: LoopValues, cell: Cell, opset: int) -> None:
        self._loop = loop
        self._values = values
        self._cell = cell
        self._opset = opset
        self.build = NodeBuilder(opset, f"{node_name(loop)}/{cell.operator.lower()}")

    def results(self) -> list[ir.Value | None] | None:
        """Returns the replacements of the loop's outputs, None for unread outputs; None if one cannot be replaced."""
        made = (self._made(step) for step in self._steps())
        return next((results for results in made if results is not None), None)

    def _made(self, step: ir.Value) -> list[ir.Value | None] | None:
        sequence = self._sequence(step)
        if sequence is None or sequence.shape is None:
            return None
        state = self._values.body.inputs[BEFORE_STATES + self._cell.states[0]]
        features = sequence.shape[FEATURES_AXIS]
        size = None if state.shape is None or len(state.shape) != 2 else state.shape[1]
        if not isinstance(features, int) or not isinstance(size, int) or max(features, size) > MOST_FEATURES:
            return None
        states = [self._first(number, sequence.shape[1]) for number in self._cell.states]
        places = self._places()
        if None in states or places is None:
            return None
        weights = self._cell.weights(Rows(step, features, state, size, self._values.constant, self._opset))
        given = [first for first in states if first is not None]
        return None if weights is None else self._written(sequence, weights, size, given, places)

    def _steps(self) -> Iterator[ir.Value]:
        """Yields the rows of sequences that the body reads at the iteration's index: [batch, features]."""
        for node in self._values.body:
            if node.op_type != "Gather" or node.domain or node.attributes.get_int("axis", 0) != 0:
                continue
            place = node.inputs[1]
            counter = None if place is None else self._values.counter(place)
            is_scalar = place is not None and place.shape is not None and len(place.shape) == 0
            if counter is not None and (counter.first, counter.step) == (0, 1) and is_scalar:
                yield node.outputs[0]

    def _sequence(self, step: ir.Value) -> ir.Value | None:
        """Returns the sequence whose rows are the steps, or None if the loop may not run over exactly its rows."""
        node, count = step.producer(), self._loop.inputs[0]
        if node is None or node.inputs[0] is None or count is None:
            return None
        sequence = self._values.outside(node.inputs[0])
        if sequence is None or sequence.dtype != ir.DataType.FLOAT or sequence.shape is None:
            return None
        if len(sequence.shape) != FEATURES_AXIS + 1:
            return None
        if size_of(count) == Size(source(sequence), 0):
            return sequence
        turns, steps = whole_number(constant_of(count)), sequence.shape[0]
        return sequence if turns is not None and turns == steps and turns > 0 else None

    def _first(self, number: int, batch: int | ir.SymbolicDim) -> ir.Value | bool | None:
        """Returns a state before the first iteration, True for zeros; None if its batch may not be the sequence's."""
        first = self._loop.inputs[BEFORE_STATES + number]
        if first is None or first.shape is None or len(first.shape) != 2:
            return None
        if isinstance(batch, ir.SymbolicDim) and batch.value is None:
            return None
        if batch not in (first.shape[0], _size_filled(first)):
            return None
        return True if _is_zero(first) else first

    def _places(self) -> list[str | int | None] | None:
        """Returns which output of the layer each output of the loop is, or None if one that is read is none of them."""
        states, body = self._cell.states, self._values.body
        hidden = source(body.outputs[CONDITION + states[0]])
        places: list[str | int | None] = []
        for number, output in enumerate(self._loop.outputs):
            if not output.uses() and not output.is_graph_output():
                places.append(None)
            elif number >= self._values.states and source(body.outputs[CONDITION + number]) is hidden:
                places.append(_ALL)
            elif number in states:
                places.append(states.index(number))
            else:
                return None
        return places

    def _written(
        self,
        sequence: ir.Value,
        weights: Weights,
        size: int,
        states: Sequence[ir.Value | bool],
        places: Sequence[str | int | None],
    ) -> list[ir.Value | None]:
        build = self.build
        matrices = [matrix.T[np.newaxis].astype(np.float32) for matrix in (weights.of_input, weights.of_state)]
        biases = np.concatenate([weights.input_bias, weights.state_bias])[np.newaxis].astype(np.float32)
        first = [build.unsqueeze(state, [0]) if isinstance(state, ir.Value) else None for state in states]
        every, *last = build.several(
            1 + len(states),
            self._cell.operator,
            sequence,
            *matrices,
            biases,
            None,
            *first,
            hidden_size=size,
            linear_before_reset=None if weights.resets_product is None else int(weights.resets_product),
            **self._functions(),
        )
        made = {_ALL: lambda: build.squeeze(every, [1])} | {
            number: lambda state=state: build.squeeze(state, [0]) for number, state in enumerate(last)
        }
        return [None if place is None else made[place]() for place in places]

    def _functions(self) -> dict[str, Any]:
        """Returns the attributes that name the activation functions."""
        functions = self._cell.functions
        if not any(function.parameters for function in functions):
            return {}  # sigmoids and hyperbolic tangents, as by default
        slopes, shifts = zip(*(function.parameters for function in functions if function.parameters), strict=True)
        names = [function.name for function in functions]
        return {"activations": names, "activation_alpha": list(slopes), "activation_beta": list(shifts)}


def _size_filled(value: ir.Value) -> int | ir.SymbolicDim | None:
    """Returns the number of rows of a value filled with one number in a computed shape, or None if unknown.

    Shape inference knows only the rank if the sizes pass through another integer type (ONNX before opset 13).
    """
    node = source(value).producer()
    if node is None or node.domain or node.op_type not in {"ConstantOfShape", "Expand"}:
        return None
    number = None if node.inputs[0] is None else constant_of(node.inputs[0])
    if node.op_type == "Expand" and (number is None or number.size != 1):
        return None
    shape = node.inputs[-1]
    while shape is not None and (before := shape.producer()) is not None and before.op_type in {"Cast", "Identity"}:
        shape = before.inputs[0]
    joined = None if shape is None else shape.producer()
    if joined is None or joined.op_type != "Concat" or joined.domain or joined.inputs[0] is None:
        return None
    size = size_of(joined.inputs[0])
    return None if size is None or size.tensor.shape is None else size.tensor.shape[size.axis]


def _is_zero(value: ir.Value) -> bool:
    """Whether a value is zero everywhere, whatever its shape."""
    array, node = constant_of(value), source(value).producer()
    if node is not None and not node.domain and node.op_type == "Expand" and node.inputs[0] is not None:
        array = constant_of(node.inputs[0])
    elif node is not None and not node.domain and node.op_type == "ConstantOfShape":
        array = node.attributes["value"].as_tensor().numpy() if "value" in node.attributes else np.zeros(1)
    return array is not None and not array.any()
