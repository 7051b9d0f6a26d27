"""Recurrent layers: one loop over the steps, computed in float32 as in Core ML."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.ops.elementwise import clamped
from edgekit_coreai.translation.ops.linear import times_transposed
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor

_Step = Callable[[Tensor, list[Tensor]], list[Tensor]]
"""Computes the states after a step from the input's contribution and the states before; the first state is output."""


def _activate(b: Builder, name: str, x: Tensor) -> Tensor:
    if name in ("sigmoid", "relu"):
        return b.op(name, x)
    if name in ("tanh", "scaled_tanh"):
        return b.op("tanh", x)
    if name == "linear":
        return x
    if name in ("hard_sigmoid", "sigmoid_hard"):
        return clamped(b, b.add(b.mul(x, 0.2), 0.5), 0, 1)
    raise CannotTranslate(f"there is no activation {name}")


def _parts(b: Builder, x: Tensor, count: int, axis: int) -> list[Tensor]:
    size = x.shape[axis]
    assert size is not None
    return [b.narrow(x, axis, place * size // count, (place + 1) * size // count) for place in range(count)]


def _run(
    b: Builder, projected: Tensor, states: Sequence[Tensor], step: _Step, *, reverse: bool
) -> tuple[Tensor, list[Tensor]]:
    """Run over the first dimension of ``projected`` [s, b, gates].

    Returns:
        The first state after each step [s, b, H], in the order of the input; the states after the last step.
    """
    if projected.shape[0] == 1:
        after = step(b.squeeze(projected, [0]), list(states))
        return b.expand(after[0], [0]), after
    count = b.size(projected, 0)
    first = states[0]
    empty = b.broadcast(b.like(0, first), [count, *b.all_sizes(first)])
    zero, one = b.constant(np.int32(0)), b.constant(np.int32(1))
    last = b.constant(np.int32(count - 1)) if isinstance(count, int) else b.sub(count, 1)
    stop = b.constant(np.int32(count)) if isinstance(count, int) else count
    initial = [zero, *states, empty]

    def body(values: list[Tensor]) -> list[Tensor]:
        index, *before, outputs = values
        place = b.sub(last, index) if reverse else index
        row = b.reshape(b.gather(projected, b.reshape(place, [1]), 0), b.all_sizes(projected)[1:])
        after = step(row, before)
        begin = b.vector([place, 0, 0])
        end = b.vector([b.add(place, 1), *b.all_sizes(first)])
        stride = b.constant(np.ones(3, np.int32))
        written = b.op("slice_update", outputs, begin, end, stride, b.expand(after[0], [0]))
        return [b.add(index, one), *after, b.refined(written, outputs.shape)]

    kinds = [(item.shape, item.dtype) for item in initial]
    results = b.loop(initial, kinds, lambda values: b.less(values[0], stop), body)
    return results[-1], results[1:-1]


def _project(b: Builder, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    made = times_transposed(b, b.wide(x), b.wide(weight))
    return made if bias is None else b.add(made, b.wide(bias))


def _lstm_step(
    b: Builder, weight: Tensor, peephole: Tensor | None, activations: Sequence[str], clip: float | None
) -> _Step:
    gate, cell_input, cell_output = activations
    weight = b.wide(weight)
    peep = _parts(b, b.wide(peephole), 3, 0) if peephole is not None else None

    def step(projected: Tensor, states: list[Tensor]) -> list[Tensor]:
        h, c = states
        total = b.add(projected, times_transposed(b, h, weight))
        i, f, o, z = _parts(b, total, 4, 1)
        if peep is not None:
            i, f = b.add(i, b.mul(c, peep[0])), b.add(f, b.mul(c, peep[1]))
        c = b.add(b.mul(_activate(b, gate, f), c), b.mul(_activate(b, gate, i), _activate(b, cell_input, z)))
        if clip is not None:
            c = clamped(b, c, -clip, clip)
        if peep is not None:
            o = b.add(o, b.mul(c, peep[2]))
        return [b.mul(_activate(b, gate, o), _activate(b, cell_output, c)), c]

    return step


@lowering("lstm")
def lstm(
    b: Builder,
    call: Call,
    x: Tensor,
    initial_h: Tensor,
    initial_c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    peephole: Tensor | None = None,
    weight_ih_back: Tensor | None = None,
    weight_hh_back: Tensor | None = None,
    bias_back: Tensor | None = None,
    peephole_back: Tensor | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    recurrent_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    activation: str = "tanh",
    clip: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Long short-term memory; gates in the order input, forget, output, cell."""
    activations = (recurrent_activation, cell_activation, activation)
    h, c = b.wide(initial_h), b.wide(initial_c)
    forward = _lstm_step(b, weight_hh, peephole, activations, clip)
    projected = _project(b, x, weight_ih, bias)
    if direction != "bidirectional":
        outputs, (h, c) = _run(b, projected, [h, c], forward, reverse=_is_reverse(direction))
        ordered = _in_order(b, outputs, direction)
        return (ordered if output_sequence else b.expand(h, [0])), h, c
    if weight_ih_back is None or weight_hh_back is None:
        raise CannotTranslate("a bidirectional layer without backward weights")
    backward = _lstm_step(b, weight_hh_back, peephole_back, activations, clip)
    halves = list(zip(_parts(b, h, 2, 1), _parts(b, c, 2, 1), strict=True))
    ahead, (h, c) = _run(b, projected, list(halves[0]), forward, reverse=False)
    back, (h_back, c_back) = _run(b, _project(b, x, weight_ih_back, bias_back), list(halves[1]), backward, reverse=True)
    h, c = b.concat([h, h_back], 1), b.concat([c, c_back], 1)
    return (b.concat([ahead, back], 2) if output_sequence else b.expand(h, [0])), h, c


def _is_reverse(direction: str) -> bool:
    if direction not in ("forward", "reverse"):
        raise CannotTranslate(f"there is no direction {direction}")
    return direction == "reverse"


def _in_order(b: Builder, outputs: Tensor, direction: str) -> Tensor:
    """The outputs of a layer of one direction in the order of computation, which MIL specifies."""
    return b.op("reverse", outputs, np.array([0], np.int32)) if direction == "reverse" else outputs


@lowering("gru")
def gru(
    b: Builder,
    call: Call,
    x: Tensor,
    initial_h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    recurrent_activation: str = "sigmoid",
    activation: str = "tanh",
    reset_after: bool = False,
    input_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gated recurrent unit; gates in the order reset, output, update."""
    w_r, w_o, w_z = _parts(b, b.wide(weight_hh), 3, 0)
    biases = [None, None, None] if bias is None else _parts(b, b.wide(bias), 3, 0)

    def recurrent(h: Tensor, weight: Tensor, place: int) -> Tensor:
        made, offset = times_transposed(b, h, weight), biases[place]
        return made if offset is None else b.add(made, offset)

    def step(projected: Tensor, states: list[Tensor]) -> list[Tensor]:
        (h,) = states
        r_input, o_input, z_input = _parts(b, projected, 3, 1)
        r = _activate(b, recurrent_activation, b.add(r_input, recurrent(h, w_r, 0)))
        z = _activate(b, recurrent_activation, b.add(z_input, recurrent(h, w_z, 2)))
        inner = b.mul(r, recurrent(h, w_o, 1)) if reset_after else recurrent(b.mul(r, h), w_o, 1)
        new = _activate(b, activation, b.add(o_input, inner))
        return [b.add(b.mul(b.sub(b.like(1, z), z), new), b.mul(z, h))]

    projected = _project(b, x, weight_ih, input_bias)
    outputs, (h,) = _run(b, projected, [b.wide(initial_h)], step, reverse=_is_reverse(direction))
    return (_in_order(b, outputs, direction) if output_sequence else b.expand(h, [0])), h


@lowering("rnn")
def rnn(
    b: Builder,
    call: Call,
    x: Tensor,
    initial_h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    activation: str = "tanh",
) -> tuple[Tensor, Tensor]:
    """Elman's recurrent network."""
    weight = b.wide(weight_hh)

    def step(projected: Tensor, states: list[Tensor]) -> list[Tensor]:
        return [_activate(b, activation, b.add(projected, times_transposed(b, states[0], weight)))]

    projected = _project(b, x, weight_ih, bias)
    outputs, (h,) = _run(b, projected, [b.wide(initial_h)], step, reverse=_is_reverse(direction))
    return (_in_order(b, outputs, direction) if output_sequence else b.expand(h, [0])), h
