"""Steps of a long short-term memory in loops: ``c' = f c + i g`` and ``h' = o tanh(c')``."""

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
    operands,
)
from edgekit.graph.loops.values import BEFORE_STATES, CONDITION, LoopValues, source

_TANH = Function("Tanh")


@dataclass(frozen=True)
class LstmCell:
    """A step of an LSTM."""

    hidden: int
    """Index of the state that is the output of a step."""
    memory: int
    """Index of the state that is the memory cell."""
    gate: Function
    """The activation function of the input, output and forget gate."""
    arguments: tuple[ir.Value, ir.Value, ir.Value, ir.Value]
    """Arguments of the functions of the input, output and forget gate and of the cell candidate: ONNX's order."""
    operator: str = "LSTM"

    @property
    def states(self) -> Sequence[int]:
        """The indices of the output and of the memory."""
        return self.hidden, self.memory

    @property
    def functions(self) -> Sequence[Function]:
        """The activation functions of the gates, of the cell candidate, and of the memory on output."""
        return self.gate, _TANH, _TANH

    def weights(self, rows: Rows) -> Weights | None:
        """Returns the weights of the four sums, or None if one of the arguments is no such sum."""
        forms = rows.forms()
        found = [forms.form(argument) for argument in self.arguments]
        sums = [form for form in found if form is not None and form.columns == rows.size]
        if len(sums) < len(found):
            return None
        bias = in_a_row([form.bias for form in sums], rows.size)
        of_input, of_state = (
            beside(sums, row, columns) for row, columns in ((rows.step, rows.features), (rows.state, rows.size))
        )
        return Weights(of_input, of_state, bias, np.zeros_like(bias))


def lstm_cells(values: LoopValues) -> Iterator[LstmCell]:
    """Yields the pairs of states that are computed as in an LSTM."""
    made = [source(value) for value in values.body.outputs[CONDITION : CONDITION + values.states]]
    before = values.body.inputs[BEFORE_STATES:]
    for hidden, output in enumerate(made):
        for o, put_out in _gated(output, values):
            for memory, new in enumerate(made):
                if source(put_out.argument) is not new or memory == hidden:
                    continue
                for f, i, g in _remembered(new, before[memory], values):
                    if o.function == f.function == i.function:
                        arguments = (i.argument, o.argument, f.argument, g.argument)
                        yield LstmCell(hidden, memory, i.function, arguments)


def _remembered(
    new: ir.Value, memory: ir.Value, values: LoopValues
) -> Iterator[tuple[Activated, Activated, Activated]]:
    """The forget gate, the input gate and the hyperbolic tangent of a memory's new state, ``f c + i tanh(…)``."""
    for kept, taken in operands(new, "Add"):
        for forget, state in operands(kept, "Mul"):
            if state is memory:
                for f, (i, g) in itertools.product(activated(forget, values), _gated(taken, values)):
                    yield f, i, g


def _gated(value: ir.Value, values: LoopValues) -> Iterator[tuple[Activated, Activated]]:
    """A gate, and the hyperbolic tangent that it is multiplied with."""
    for one, other in operands(value, "Mul"):
        for gate in activated(one, values):
            for content in activated(other, values):
                if gate.function.name in GATES and content.function == _TANH:
                    yield gate, content
