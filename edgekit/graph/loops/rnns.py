"""Steps of plain recurrent layers in loops: ``h' = tanh(x W + h R + b)``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.graph.loops.recurrent_cells import Activated, Function, Rows, Weights, activated, beside, in_a_row
from edgekit.graph.loops.values import CONDITION, LoopValues


@dataclass(frozen=True)
class RnnCell:
    """A step of an RNN."""

    hidden: int
    """Index of the loop's state."""
    fresh: Activated
    """The function that gives the new state, and its argument."""
    operator: str = "RNN"

    @property
    def states(self) -> Sequence[int]:
        """The index of the only state."""
        return (self.hidden,)

    @property
    def functions(self) -> Sequence[Function]:
        """The activation function of the new state."""
        return (self.fresh.function,)

    def weights(self, rows: Rows) -> Weights | None:
        """Returns the weights of the sum that the function is applied to, or None if its argument is no such sum."""
        form = rows.forms().form(self.fresh.argument)
        if form is None or form.columns != rows.size or rows.state not in form.weights:
            return None
        of_input, of_state = beside([form], rows.step, rows.features), beside([form], rows.state, rows.size)
        return Weights(of_input, of_state, in_a_row([form.bias], rows.size), np.zeros(rows.size))


def rnn_cells(values: LoopValues) -> Iterator[RnnCell]:
    """Yields the states that are computed as in an RNN."""
    for number, output in enumerate(values.body.outputs[CONDITION : CONDITION + values.states]):
        for fresh in activated(output, values):
            if fresh.function.name == "Tanh":
                yield RnnCell(number, fresh)
