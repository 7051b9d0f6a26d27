"""Loops that compute a long short-term memory step by step: each becomes an LSTM node.

Exporters of Keras (tf2onnx) write the layer as TensorFlow computes it, cell by cell in a ``while_loop``. Runtimes have
an operator for it, and where they have not, a loop of known length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgekit.graph.affine_forms import MOST_FEATURES, Form, Forms
from edgekit.graph.building import NodeBuilder
from edgekit.graph.loop_turns import ends_by_count
from edgekit.graph.loop_values import (
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


@dataclass(frozen=True)
class _Cell:
    """An LSTM's step, found in a loop."""

    hidden: int
    """Number of the state that is the output of a step."""
    memory: int
    """Number of the state that is the memory cell."""
    gates: tuple[ir.Value, ir.Value, ir.Value, ir.Value]
    """Arguments of the activations of the input, output and forget gate, and of what is taken in: ONNX's order."""


def recognize_lstms(model: ir.Model) -> bool:
    """Replaces loops that compute an LSTM, in place; says whether there are any.

    What depends on the shapes of their outputs may be known then, among it what further loops depend on.
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
    for cell in _cells(values):
        recurrence = _Recurrence(loop, values, cell, opset)
        if (results := recurrence.results()) is not None:
            build = recurrence.build
            for value in build.initializers:
                graph.register_initializer(value)
            used = [(old, new) for old, new in zip(loop.outputs, results, strict=True) if new is not None]
            graph.insert_before(loop, build.nodes)
            for old, new in used:
                new.type, new.shape = old.type, new.shape or old.shape
                ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
            graph.remove(loop, safe=True)
            return True
    return False


def _cells(values: LoopValues) -> Iterator[_Cell]:
    """Pairs of states that are made as an LSTM makes them: ``c' = f c + i g`` and ``h' = o tanh(c')``."""
    made = [source(value) for value in values.body.outputs[CONDITION : CONDITION + values.states]]
    before = values.body.inputs[BEFORE_STATES:]
    for hidden, output in enumerate(made):
        for o, activated in _pairs(output, "Mul", "Sigmoid", "Tanh"):
            for memory, new in enumerate(made):
                if source(activated) is not new or memory == hidden:
                    continue
                for kept, taken in _operands(new, "Add"):
                    forgets = [f for f, state in _operands(kept, "Mul") if state is before[memory]]
                    for f in (each for forget in forgets for each in _argument(forget, "Sigmoid")):
                        for i, g in _pairs(taken, "Mul", "Sigmoid", "Tanh"):
                            yield _Cell(hidden, memory, (i, o, f, g))


def _operands(value: ir.Value, operator: str) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The operands of what makes a value, in both orders, if that is an operator of two."""
    node = source(value).producer()
    if node is not None and (node.op_type, node.domain) == (operator, ""):
        one, other = node.inputs
        if one is not None and other is not None:
            yield source(one), source(other)
            yield source(other), source(one)


def _argument(value: ir.Value, operator: str) -> Iterator[ir.Value]:
    """What an operator of one operand makes a value of."""
    node = source(value).producer()
    if node is not None and (node.op_type, node.domain) == (operator, "") and node.inputs[0] is not None:
        yield node.inputs[0]


def _pairs(value: ir.Value, operator: str, first: str, second: str) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The arguments of two functions whose results an operator joins to a value."""
    for one, other in _operands(value, operator):
        for argument in _argument(one, first):
            for other_argument in _argument(other, second):
                yield argument, other_argument


class _Recurrence:
    """A cell and what the loop feeds it with.

    Args:
        loop: The node.
        values: What the values in its body are.
        cell: What was found there.
        opset: The version of the standard operators.
    """

    def __init__(self, loop: ir.Node, values: LoopValues, cell: _Cell, opset: int) -> None:
        self._loop = loop
        self._values = values
        self._cell = cell
        self._opset = opset
        self.build = NodeBuilder(opset, f"{node_name(loop)}/lstm")

    def results(self) -> list[ir.Value | None] | None:
        """What replaces the outputs of the loop, None for those that nothing reads; None where something cannot."""
        made = (self._made(step) for step in self._steps())
        return next((results for results in made if results is not None), None)

    def _made(self, step: ir.Value) -> list[ir.Value | None] | None:
        sequence = self._sequence(step)
        if sequence is None or sequence.shape is None:
            return None
        features, state = sequence.shape[FEATURES_AXIS], self._values.body.inputs[BEFORE_STATES + self._cell.hidden]
        size = None if state.shape is None or len(state.shape) != 2 else state.shape[1]
        if not isinstance(features, int) or not isinstance(size, int) or max(features, size) > MOST_FEATURES:
            return None
        forms = Forms({step: features, state: size}, self._values.constant, self._opset)
        gates = [forms.form(gate) for gate in self._cell.gates]
        found = [form for form in gates if form is not None and form.columns == size]
        states = [self._first(number, sequence.shape[1]) for number in (self._cell.hidden, self._cell.memory)]
        places = self._places()
        if len(found) < len(gates) or None in states or places is None:
            return None
        given = [first for first in states if first is not None]
        return self._written(sequence, [self._stored(found, each) for each in (step, state)], found, given, places)

    def _steps(self) -> Iterator[ir.Value]:
        """What the body takes of sequences in each turn: the row of the turn's number, [batch, features]."""
        for node in self._values.body:
            if node.op_type != "Gather" or node.domain or node.attributes.get_int("axis", 0) != 0:
                continue
            place = node.inputs[1]
            counter = None if place is None else self._values.counter(place)
            is_scalar = place is not None and place.shape is not None and len(place.shape) == 0
            if counter is not None and (counter.first, counter.step) == (0, 1) and is_scalar:
                yield node.outputs[0]

    def _sequence(self, step: ir.Value) -> ir.Value | None:
        """The sequence that the steps are rows of, as far as the loop goes; None where that is not certain."""
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
        """A state before the first turn: True for zeros, None where its batch is not certainly that of the sequence."""
        first = self._loop.inputs[BEFORE_STATES + number]
        if first is None or first.shape is None or len(first.shape) != 2:
            return None
        of_state = first.shape[0]
        if of_state != batch or (isinstance(batch, ir.SymbolicDim) and batch.value is None):
            return None
        return True if _is_zero(first) else first

    def _places(self) -> list[str | None] | None:
        """Which output of an LSTM each output of the loop is; None where something reads another one."""
        cell, body = self._cell, self._values.body
        hidden = source(body.outputs[CONDITION + cell.hidden])
        places: list[str | None] = []
        for number, output in enumerate(self._loop.outputs):
            if not output.uses() and not output.is_graph_output():
                places.append(None)
            elif number >= self._values.states and source(body.outputs[CONDITION + number]) is hidden:
                places.append("all")
            elif number in (cell.hidden, cell.memory):
                places.append("hidden" if number == cell.hidden else "memory")
            else:
                return None
        return places

    def _stored(self, gates: Sequence[Form], row: ir.Value) -> np.ndarray:
        """Weights as ONNX stores them: float32[1, 4 H, columns of the row]."""
        size = gates[0].columns or 0
        columns = next((form.weights[row].shape[0] for form in gates if row in form.weights), size)
        matrices = [form.weights.get(row, np.zeros((columns, size))) for form in gates]
        return np.concatenate(matrices, axis=1).T[np.newaxis].astype(np.float32)

    def _written(
        self,
        sequence: ir.Value,
        weights: Sequence[np.ndarray],
        gates: Sequence[Form],
        states: Sequence[ir.Value | bool],
        places: Sequence[str | None],
    ) -> list[ir.Value | None]:
        build, size = self.build, gates[0].columns or 0
        bias = [np.broadcast_to(form.bias, size) for form in gates]
        biases = np.concatenate([*bias, np.zeros(4 * size)])[np.newaxis].astype(np.float32)
        first = [build.unsqueeze(state, [0]) if isinstance(state, ir.Value) else None for state in states]
        every, hidden, memory = build.several(3, "LSTM", sequence, *weights, biases, None, *first, hidden_size=size)
        made = {
            "all": lambda: build.squeeze(every, [1]),
            "hidden": lambda: build.squeeze(hidden, [0]),
            "memory": lambda: build.squeeze(memory, [0]),
        }
        return [None if place is None else made[place]() for place in places]


def _is_zero(value: ir.Value) -> bool:
    """Whether a value is zero everywhere, whatever its shape."""
    array, node = constant_of(value), source(value).producer()
    if node is not None and not node.domain and node.op_type == "Expand" and node.inputs[0] is not None:
        array = constant_of(node.inputs[0])
    elif node is not None and not node.domain and node.op_type == "ConstantOfShape":
        array = node.attributes["value"].as_tensor().numpy() if "value" in node.attributes else np.zeros(1)
    return array is not None and not array.any()
