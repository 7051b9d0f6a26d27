"""RNN, GRU and LSTM: as Core ML's own layers if they have the cell, step by step otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Value
from edgekit_mil.support.recurrent_nodes import Layer, affine, held, of_direction, passes
from edgekit_mil.support.stepwise_recurrence import States, activations_of, run_steps
from edgekit_mil.support.stored_weights import Stored

INPUT_FORGET_OUTPUT_CELL = (0, 2, 1, 3)
"""Core ML's order of an LSTM's gates, as indices into ONNX's order: input, output, forget, cell."""
RESET_OUTPUT_UPDATE = (1, 2, 0)
"""Core ML's order of a GRU's gates, as indices into ONNX's order: update, reset, hidden."""
INPUT_FORGET_OUTPUT = (0, 2, 1)
"""Core ML's order of an LSTM's peepholes, as indices into ONNX's order: input, output, forget."""


@lowering("RNN", versions=[7, 14, 22])
def rnn(
    ctx: Context,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> list[Var]:
    """``h = f(x W + h R + b)``."""
    names = activations[: len(passes(direction))]
    functions = activations_of(names, activation_alpha, activation_beta, clip)
    layer = Layer(x, w, r, b, sequence_lens, direction, layout, functions, clip)

    def one(index: int, sequence: Var, states: States) -> tuple[Var, States]:
        (activate,) = layer.activations_of(index)
        weights = layer.weights(index)
        if layer.fits_own(index):
            own = weights.reordered((0,))
            outputs, h = mb.rnn(
                x=sequence,
                initial_h=states[0],
                weight_ih=own.w,
                weight_hh=own.r,
                bias=own.w_bias + own.r_bias,
                output_sequence=True,
                activation=activate.name,
            )
            return outputs, (h,)

        weights = weights.held()

        def cell(contribution: Var, before: States) -> States:
            return (activate(mb.add(x=contribution, y=affine(before[0], weights.r))),)

        return run_steps(cell, affine(sequence, weights.w, weights.w_bias, weights.r_bias), states, layer.lengths)

    return layer.run([initial_h], one)


@lowering("GRU", versions=[7, 14, 22])
def gru(
    ctx: Context,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> list[Var]:
    """Gated recurrent unit.

    Core ML's own ``reset_after`` is not used for linear_before_reset: Apple's test of it is marked as failing.
    """
    names = activations or ["Sigmoid", "Tanh"] * len(passes(direction))
    functions = activations_of(names, activation_alpha, activation_beta, clip)
    layer = Layer(x, w, r, b, sequence_lens, direction, layout, functions, clip)

    def one(index: int, sequence: Var, states: States) -> tuple[Var, States]:
        gate, activate = layer.activations_of(index)
        weights = layer.weights(index)
        if layer.fits_own(index) and not linear_before_reset:
            own = weights.reordered(RESET_OUTPUT_UPDATE)
            outputs, h = mb.gru(
                x=sequence,
                initial_h=states[0],
                weight_ih=own.w,
                weight_hh=own.r,
                bias=own.w_bias + own.r_bias,
                output_sequence=True,
                recurrent_activation=gate.name,
                activation=activate.name,
            )
            return outputs, (h,)
        size = layer.hidden
        r_gates, r_hidden = (held(rows(weights.r, *span)) for span in ((0, 2 * size), (2 * size, 3 * size)))
        if weights.r_bias is None:
            gates_bias = hidden_bias = None
        else:
            gates_bias, hidden_bias = (rows(weights.r_bias, *span) for span in ((0, 2 * size), (2 * size, 3 * size)))

        def cell(contribution: Var, before: States) -> States:
            (h,) = before
            x_gates, x_hidden = mb.split(x=contribution, split_sizes=[2 * size, size], axis=1)
            gates = gate(mb.add(x=x_gates, y=affine(h, r_gates, gates_bias)))
            z, reset = mb.split(x=gates, num_splits=2, axis=1)
            if linear_before_reset:
                recurrent = mb.mul(x=reset, y=affine(h, r_hidden, hidden_bias))
            else:
                recurrent = affine(mb.mul(x=reset, y=h), r_hidden, hidden_bias)
            fresh = activate(mb.add(x=x_hidden, y=recurrent))
            kept = mb.mul(x=z, y=h)
            return (mb.add(x=mb.mul(x=mb.sub(x=1.0, y=z), y=fresh), y=kept),)

        return run_steps(cell, affine(sequence, held(weights.w), weights.w_bias), states, layer.lengths)

    return layer.run([initial_h], one)


@lowering("LSTM", versions=[7, 14, 22])
def lstm(
    ctx: Context,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    p: Value | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> list[Var]:
    """Long short-term memory, with peepholes p where they are given.

    Clipping bounds the arguments of the gates' activations. The specification leaves open whether it also bounds the
    cell state before its activation; ONNX Runtime does not clip that.
    """
    names = activations or ["Sigmoid", "Tanh", "Tanh"] * len(passes(direction))
    functions = activations_of(names, activation_alpha, activation_beta, clip)
    layer = Layer(x, w, r, b, sequence_lens, direction, layout, functions, clip)
    return lstm_outputs(layer, [initial_h, initial_c], p, input_forget=bool(input_forget))


def lstm_outputs(layer: Layer, initial: Sequence[Value | None], p: Value | None, *, input_forget: bool) -> list[Var]:
    """All outputs of a long short-term memory, and its last states.

    Args:
        layer: The node's inputs and attributes.
        initial: The initial output and cell state; None for zeros.
        p: Peepholes [directions, 3 H]; None for none.
        input_forget: Whether the forget gate is 1 minus the input gate.
    """

    def one(index: int, sequence: Var, states: States) -> tuple[Var, States]:
        gate, cell_input, cell_output = layer.activations_of(index)
        weights = layer.weights(index)
        peepholes = None if p is None else of_direction(p, index)
        if layer.fits_own(index) and not input_forget and (p is None or p.is_constant):
            own = weights.reordered(INPUT_FORGET_OUTPUT_CELL)
            outputs, h, c = mb.lstm(
                x=sequence,
                initial_h=states[0],
                initial_c=states[1],
                weight_ih=own.w,
                weight_hh=own.r,
                bias=own.w_bias + own.r_bias,
                peephole=None
                if peepholes is None
                else np.concatenate([np.split(peepholes, 3)[part] for part in INPUT_FORGET_OUTPUT]),
                output_sequence=True,
                recurrent_activation=gate.name,
                cell_activation=cell_input.name,
                activation=cell_output.name,
            )
            return outputs, (h, c)
        size = layer.hidden
        weights = weights.held()
        p_i, p_o, p_f = (
            None if peepholes is None else rows(peepholes, part * size, (part + 1) * size) for part in range(3)
        )

        def peep(total: Var, peephole: Var | None, state: Var) -> Var:
            return total if peephole is None else mb.add(x=total, y=mb.mul(x=state, y=peephole))

        def cell(contribution: Var, before: States) -> States:
            h, c = before
            total = mb.add(x=contribution, y=layer.product(h, weights.r))
            i, o, f, z = mb.split(x=total, num_splits=4, axis=1)
            taken = gate(peep(i, p_i, c))
            kept = mb.sub(x=1.0, y=taken) if input_forget else gate(peep(f, p_f, c))
            c = mb.add(x=mb.mul(x=kept, y=c), y=mb.mul(x=taken, y=cell_input(z)))
            return mb.mul(x=gate(peep(o, p_o, c)), y=cell_output.function(c)), c

        contributions = layer.product(sequence, weights.w, weights.w_bias, weights.r_bias)
        return run_steps(cell, contributions, states, layer.lengths)

    return layer.run(initial, one)


def rows(values: Any, begin: int, end: int) -> Any:
    """A range along the first axis of weights: of a constant, stored in 8 bits or not, or of a variable."""
    if isinstance(values, Stored):
        return values.rows(range(begin, end))
    if isinstance(values, np.ndarray):
        return values[begin:end]
    rest = [int(size) for size in values.shape[1:]]
    return mb.slice_by_size(x=values, begin=[begin, *([0] * len(rest))], size=[end - begin, *rest])
