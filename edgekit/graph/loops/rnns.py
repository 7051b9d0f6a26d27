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
    """Number of the state."""
    fresh: Activated
    """What the state becomes."""
    operator: str = "RNN"

    @property
    def states(self) -> Sequence[int]:
        """The only one."""
        return (self.hidden,)

    @property
    def functions(self) -> Sequence[Function]:
        """Of what the state becomes."""
        return (self.fresh.function,)

    def weights(self, rows: Rows) -> Weights | None:
        """Those of the sum; None where it is something else."""
        form = rows.forms().form(self.fresh.argument)
        if form is None or form.columns != rows.size or rows.state not in form.weights:
            return None
        of_input, of_state = beside([form], rows.step, rows.features), beside([form], rows.state, rows.size)
        return Weights(of_input, of_state, in_a_row([form.bias], rows.size), np.zeros(rows.size))


def rnn_cells(values: LoopValues) -> Iterator[RnnCell]:
    """States that are made as an RNN makes its own."""
    for number, output in enumerate(values.body.outputs[CONDITION : CONDITION + values.states]):
        for fresh in activated(output, values):
            if fresh.function.name == "Tanh":
                yield RnnCell(number, fresh)
