"""Steps of gated recurrent units in loops: ``h' = z h + (1 - z) tanh(…)``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.graph.loops.recurrent_cells import (
    GATES,
    Activated,
    Function,
    Rows,
    Weights,
    activated,
    beside,
    in_a_row,
    is_one,
    operands,
)
from edgekit.graph.loops.values import BEFORE_STATES, CONDITION, LoopValues, source

_MOST_NODES = 64
"""At most this many nodes of a step are searched for the product with the reset gate."""


@dataclass(frozen=True)
class GruCell:
    """A step of a GRU."""

    hidden: int
    """Index of the loop's state."""
    gate: Function
    """The activation function of the update and the reset gate."""
    update: ir.Value
    """Argument of the update gate's function."""
    reset: ir.Value
    """Argument of the reset gate's function."""
    product: ir.Value
    """The product of the reset gate and a value made from the state."""
    passed: ir.Value
    """The value that the reset gate multiplies: the state, or its product with weights."""
    fresh: Activated
    """The candidate state, which the update gate mixes with the previous state."""
    operator: str = "GRU"

    @property
    def states(self) -> Sequence[int]:
        """The index of the only state."""
        return (self.hidden,)

    @property
    def functions(self) -> Sequence[Function]:
        """The activation functions of the gates and of the candidate state."""
        return self.gate, self.fresh.function

    def weights(self, rows: Rows) -> Weights | None:
        """Returns the weights of the three sums, by where the reset gate stands, or None if one is no such sum."""
        forms, with_product = rows.forms(), rows.forms(self.product)
        found = [forms.form(self.update), forms.form(self.reset), with_product.form(self.fresh.argument)]
        sums = [form for form in found if form is not None and form.columns == rows.size]
        passed = forms.form(self.passed)
        if len(sums) < len(found) or passed is None or rows.step in passed.weights:
            return None
        fresh, nothing = sums[-1], np.zeros(rows.size)
        of_product = fresh.weights.get(self.product)
        if rows.state in fresh.weights or of_product is None or rows.state not in passed.weights:
            return None
        of_input = beside(sums, rows.step, rows.features)
        input_bias = in_a_row([form.bias for form in sums], rows.size)
        if _is_identity(passed.weights[rows.state]) and not passed.bias.any():
            recurrent, bias, resets_product = of_product, nothing, False
        elif _is_identity(of_product):
            recurrent, bias, resets_product = passed.weights[rows.state], passed.bias, True
        else:
            return None
        of_state = np.concatenate([beside(sums[:2], rows.state, rows.size), recurrent], axis=1)
        state_bias = in_a_row([nothing, nothing, bias], rows.size)
        return Weights(of_input, of_state, input_bias, state_bias, resets_product)


def gru_cells(values: LoopValues) -> Iterator[GruCell]:
    """Yields the states that are computed as in a GRU."""
    made = [source(value) for value in values.body.outputs[CONDITION : CONDITION + values.states]]
    for number, output in enumerate(made):
        state = values.body.inputs[BEFORE_STATES + number]
        for update, fresh in _moved(output, state, values):
            for reset, product, passed in _reset(fresh.argument, values):
                if reset.function == update.function:
                    yield GruCell(number, update.function, update.argument, reset.argument, product, passed, fresh)


def _moved(output: ir.Value, state: ir.Value, values: LoopValues) -> Iterator[tuple[Activated, Activated]]:
    """Yields the update gate, and the hyperbolic tangent that is the candidate state."""
    for gate, content in _mixed(output, state, values):
        for update, fresh in itertools.product(activated(gate, values), activated(content, values)):
            if update.function.name in GATES and fresh.function.name == "Tanh":
                yield update, fresh


def _mixed(output: ir.Value, state: ir.Value, values: LoopValues) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yields the gate z and the value n mixed with the state: ``z h + (1 - z) n``, or ``n + z (h - n)``."""
    for one, other in operands(output, "Add"):
        for gate, kept in operands(one, "Mul"):
            if kept is state:
                for rest, content in operands(other, "Mul"):
                    if any(is_one(whole, values) and part is gate for whole, part in operands(rest, "Sub")):
                        yield gate, content
            elif any(before is state and content is other for before, content in operands(kept, "Sub")):
                yield gate, other


def _reset(argument: ir.Value, values: LoopValues) -> Iterator[tuple[Activated, ir.Value, ir.Value]]:
    """Yields products of a gate that a value depends on: the gate, the product, and the value multiplied."""
    waiting, seen = [source(argument)], 0
    while waiting and seen < _MOST_NODES:
        value = waiting.pop(0)
        node, seen = value.producer(), seen + 1
        if node is None or node.graph is not values.body:
            continue
        for gate, passed in operands(value, "Mul"):
            for found in activated(gate, values):
                if found.function.name in GATES:
                    yield found, value, passed
        waiting += [source(each) for each in node.inputs if each is not None]


def _is_identity(matrix: np.ndarray) -> bool:
    return matrix.shape[0] == matrix.shape[1] and bool(np.array_equal(matrix, np.eye(len(matrix))))
