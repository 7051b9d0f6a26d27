"""Recurrent layers. Sequences are [s, b, I], states [b, H].

The gates' equations are those of the operations' documentation. Three details are documented only in Core ML's
NeuralNetwork.proto: the constants of ``hard_sigmoid``; that ``clip`` limits the cell state; and that the backward half
of a bidirectional layer's sequence is in the order of the input. With ``direction="reverse"``, in contrast, a sequence
is in the order in which it was computed: last input first.

Layers with constant weights and common activations run as the ONNX operator of the same name: a step in NumPy takes a
hundred times as long as one in ONNX Runtime. What that operator lacks (such as clipped cell states) is computed step by
step in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit_mlruntime.kernels.onnx_op import run_onnx_op_with_outputs
from edgekit_mlruntime.kernels.products import product
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel

Activation = Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    # tanh neither overflows nor loses accuracy at either end.
    return np.asarray(np.tanh(x * np.float32(0.5)) * np.float32(0.5) + np.float32(0.5))


def _hard_sigmoid(x: Array) -> Array:
    return np.asarray(np.clip(x * np.float32(0.2) + np.float32(0.5), 0, 1))


_ACTIVATIONS: dict[str, Activation] = {
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "linear": lambda x: x,
    # Both factors are 1, their defaults, as in Apple's test of the LSTM.
    "scaled_tanh": np.tanh,
    "hard_sigmoid": _hard_sigmoid,
    "sigmoid_hard": _hard_sigmoid,
}


_ONNX_ACTIVATIONS = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "scaled_tanh": "Tanh",
    "hard_sigmoid": "HardSigmoid",
    "sigmoid_hard": "HardSigmoid",
}
"""ONNX's names of the activations that ONNX's operators compute with the same constants."""
_WEIGHTS = ("weight_ih", "weight_hh", "bias", "input_bias", "peephole")
_LSTM_GATES = (0, 2, 1, 3)
"""Positions of ONNX's LSTM gates (input, output, forget, cell) in the operation's order."""
_LSTM_PEEPHOLES = (0, 2, 1)
_GRU_GATES = (2, 0, 1)
"""Positions of ONNX's GRU gates (update, reset, hidden) in the operation's order."""


@dataclass(frozen=True)
class _Direction:
    """The weights of one direction of a layer, in the operation's order of gates."""

    weight_ih: Array
    weight_hh: Array
    bias: Array | None = None
    recurrent_bias: Array | None = None
    """The bias that ONNX adds to the product with the state, separately from the bias of the input."""
    peephole: Array | None = None


def _onnx_layer(
    call: Call,
    op_type: str,
    directions: Sequence[_Direction],
    x: Array,
    states: Sequence[Array],
    gates: Sequence[int],
    activations: Sequence[str],
    **attributes: Any,
) -> tuple[Array, ...] | None:
    """A layer as one ONNX operator.

    Args:
        call: The operation.
        op_type: ``LSTM``, ``GRU`` or ``RNN``.
        directions: Weights of the forward direction and, for a bidirectional layer, of the backward direction.
        x: [s, b, I], in the order of computation.
        states: Initial states, [b, directions * H] each.
        gates: Positions of ONNX's gates in the operation's order.
        activations: Names of one direction's activations.
        attributes: Further attributes of the operator.

    Returns:
        The outputs of all steps [s, b, directions * H] and the last states [b, directions * H]; None if the weights
        are not constant, an activation has no ONNX equivalent, or ``x`` is empty.
    """
    weights = {name for name in call.inputs if name.removesuffix("_back") in _WEIGHTS}
    known = all(name in _ONNX_ACTIVATIONS for name in activations) and weights <= call.constant_inputs
    if not known or 0 in x.shape:
        return None
    operands = call.cache.get("operands")
    if operands is None:
        operands = call.cache["operands"] = _onnx_weights(directions, gates)
    count, (steps, batch, _), size = len(directions), x.shape, directions[0].weight_hh.shape[-1]
    feeds: dict[str, Array | None] = {"x": x, **{name: operands[name] for name in ("weight_ih", "weight_hh", "bias")}}
    feeds["lengths"] = None
    for index, state in enumerate(states):
        feeds[f"state_{index}"] = state.reshape(batch, count, size).swapaxes(0, 1)
    if op_type == "LSTM":
        feeds["peephole"] = operands["peephole"]
    outputs, *finals = run_onnx_op_with_outputs(
        call,
        op_type,
        op_type,
        feeds,
        shapes=[(steps, count, batch, size), *[(count, batch, size)] * len(states)],
        work=x.size * len(gates) * size * count + steps * batch * len(gates) * size * size * count,
        hidden_size=size,
        direction="bidirectional" if count == 2 else "forward",
        activations=[_ONNX_ACTIVATIONS[name] for name in activations] * count,
        **attributes,
    )
    joined = outputs.swapaxes(1, 2).reshape(steps, batch, count * size)
    return (joined, *(final.swapaxes(0, 1).reshape(batch, count * size) for final in finals))


def _onnx_weights(directions: Sequence[_Direction], gates: Sequence[int]) -> dict[str, Array | None]:
    """The weights of all directions in the form of ONNX's operators: W, R, B and, for an LSTM, P."""

    def ordered(values: Array, order: Sequence[int]) -> Array:
        parts = np.split(values, len(order))
        return np.concatenate([parts[part] for part in order])

    def stacked(values: Sequence[Array]) -> Array:
        return np.ascontiguousarray(np.stack(values), np.float32)

    none = np.zeros(len(directions[0].weight_ih), np.float32)
    biases = [
        np.concatenate([ordered(none if bias is None else bias, gates) for bias in (one.bias, one.recurrent_bias)])
        for one in directions
    ]
    peepholes = [ordered(one.peephole, _LSTM_PEEPHOLES) for one in directions if one.peephole is not None]
    return {
        "weight_ih": stacked([ordered(one.weight_ih, gates) for one in directions]),
        "weight_hh": stacked([ordered(one.weight_hh, gates) for one in directions]),
        "bias": stacked(biases),
        "peephole": stacked(peepholes) if len(peepholes) == len(directions) else None,
    }


@dataclass(frozen=True)
class _LSTMCell:
    """One direction of an LSTM; gates in the order input, forget, output, cell."""

    call: Call
    suffix: str
    """Suffix of the names of this direction's weights: empty or ``_back``."""
    weight_ih: Array
    weight_hh: Array
    bias: Array | None
    peephole: Array | None
    activations: Sequence[Activation]
    """Activations of the gates, of the cell's input and of the cell's output."""
    clip: float | None

    def run(self, x: Array, h: Array, c: Array) -> tuple[Array, Array, Array]:
        """Returns all hidden states, the last hidden state, and the last cell state."""
        gate, cell_input, cell_output = self.activations
        size = h.shape[-1]
        p_i, p_f, p_o = np.split(self.peephole, 3) if self.peephole is not None else (None, None, None)
        outputs = np.empty((x.shape[0], *h.shape), np.float32)
        for step, projected in enumerate(_project(self.call, x, self.weight_ih, self.bias, self.suffix)):
            total = projected + _recur(self.call, h, self.weight_hh, self.suffix)
            i, f, o, z = (total[:, k * size : (k + 1) * size] for k in range(4))
            if p_i is not None:
                i += p_i * c
                f += p_f * c
            c = gate(f) * c + gate(i) * cell_input(z)
            if self.clip is not None:
                c = np.clip(c, -self.clip, self.clip)
            if p_o is not None:
                o += p_o * c
            h = gate(o) * cell_output(c)
            outputs[step] = h
        return outputs, h, c


@kernel("lstm")
def lstm(
    call: Call,
    x: Array,
    initial_h: Array,
    initial_c: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias: Array | None = None,
    peephole: Array | None = None,
    weight_ih_back: Array | None = None,
    weight_hh_back: Array | None = None,
    bias_back: Array | None = None,
    peephole_back: Array | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    recurrent_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    activation: str = "tanh",
    clip: float | None = None,
) -> tuple[Array, Array, Array]:
    """Long short-term memory.

    Returns:
        The hidden states of all steps [s, b, H], or of the last one [1, b, H]; the last hidden state [b, H]; the last
        cell state [b, H]. For a bidirectional layer, H covers the forward states followed by the backward states.
    """
    names = (recurrent_activation, cell_activation, activation)
    activations = [_ACTIVATIONS[name] for name in names]
    if direction == "bidirectional" and (weight_ih_back is None or weight_hh_back is None):
        raise ValueError("a bidirectional LSTM without backward weights")
    if clip is None:
        directions = [_Direction(weight_ih, weight_hh, bias, peephole=peephole)]
        if weight_ih_back is not None and weight_hh_back is not None and direction == "bidirectional":
            directions.append(_Direction(weight_ih_back, weight_hh_back, bias_back, peephole=peephole_back))
        in_order = x if direction == "bidirectional" else _directed(x, direction)
        found = _onnx_layer(call, "LSTM", directions, in_order, [initial_h, initial_c], _LSTM_GATES, names)
        if found is not None:
            outputs, h, c = found
            return outputs if output_sequence else h[np.newaxis], h, c
    forward = _LSTMCell(call, "", weight_ih, weight_hh, bias, peephole, activations, clip)
    if direction != "bidirectional":
        outputs, h, c = forward.run(_directed(x, direction), initial_h, initial_c)
        return outputs if output_sequence else h[np.newaxis], h, c
    assert weight_ih_back is not None
    assert weight_hh_back is not None
    backward = _LSTMCell(call, "_back", weight_ih_back, weight_hh_back, bias_back, peephole_back, activations, clip)
    size = weight_hh.shape[-1]
    outputs, h, c = forward.run(x, initial_h[:, :size], initial_c[:, :size])
    outputs_back, h_back, c_back = backward.run(x[::-1], initial_h[:, size:], initial_c[:, size:])
    h, c = np.concatenate([h, h_back], axis=-1), np.concatenate([c, c_back], axis=-1)
    if not output_sequence:
        return h[np.newaxis], h, c
    return np.concatenate([outputs, outputs_back[::-1]], axis=-1), h, c


@kernel("gru")
def gru(
    call: Call,
    x: Array,
    initial_h: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias: Array | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    recurrent_activation: str = "sigmoid",
    activation: str = "tanh",
    reset_after: bool = False,
    input_bias: Array | None = None,
) -> tuple[Array, Array]:
    """Gated recurrent unit; gates in the order reset, output, update.

    Without ``reset_after``, the reset gate multiplies the previous state before the product with the recurrent weights.
    With ``reset_after`` (iOS 18), it multiplies the sum of that product and ``bias``, the recurrent bias;
    ``input_bias`` is then the bias of the input.

    Returns:
        The hidden states of all steps [s, b, H], or of the last one [1, b, H]; the last hidden state [b, H].
    """
    gate, output = _ACTIVATIONS[recurrent_activation], _ACTIVATIONS[activation]
    # Without reset_after there is one bias. For the reset and update gates it does not matter which of ONNX's two
    # biases it becomes; for the hidden gate ONNX adds both outside of the product with the reset state.
    weights = _Direction(weight_ih, weight_hh, input_bias, bias)
    found = _onnx_layer(
        call,
        "GRU",
        [weights],
        _directed(x, direction),
        [initial_h],
        _GRU_GATES,
        (recurrent_activation, activation),
        linear_before_reset=int(reset_after),
    )
    if found is not None:
        return found[0] if output_sequence else found[1][np.newaxis], found[1]
    size = initial_h.shape[-1]
    b_r, b_o, b_z = np.split(np.zeros(3 * size, np.float32) if bias is None else bias, 3)
    w_r, w_o, w_z = np.split(weight_hh, 3)
    h = initial_h
    outputs = np.empty((x.shape[0], *h.shape), np.float32)
    for step, projected in enumerate(_project(call, _directed(x, direction), weight_ih, input_bias, name="input_bias")):
        r_input, o_input, z_input = np.split(projected, 3, axis=-1)
        r = gate(r_input + _recur(call, h, w_r, key="r") + b_r)
        z = gate(z_input + _recur(call, h, w_z, key="z") + b_z)
        if reset_after:
            recurrent = r * (_recur(call, h, w_o, key="o") + b_o)
        else:
            recurrent = _recur(call, r * h, w_o, key="o") + b_o
        h = (1 - z) * output(o_input + recurrent) + z * h
        outputs[step] = h
    return outputs if output_sequence else h[np.newaxis], h


@kernel("rnn")
def rnn(
    call: Call,
    x: Array,
    initial_h: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias: Array | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    activation: str = "tanh",
) -> tuple[Array, Array]:
    """Elman's recurrent network.

    Returns:
        The hidden states of all steps [s, b, H], or of the last one [1, b, H]; the last hidden state [b, H].
    """
    activate = _ACTIVATIONS[activation]
    weights = _Direction(weight_ih, weight_hh, bias)
    found = _onnx_layer(call, "RNN", [weights], _directed(x, direction), [initial_h], (0,), (activation,))
    if found is not None:
        return found[0] if output_sequence else found[1][np.newaxis], found[1]
    h = initial_h
    outputs = np.empty((x.shape[0], *h.shape), np.float32)
    for step, projected in enumerate(_project(call, _directed(x, direction), weight_ih, bias)):
        h = activate(projected + _recur(call, h, weight_hh))
        outputs[step] = h
    return outputs if output_sequence else h[np.newaxis], h


def _directed(x: Array, direction: str) -> Array:
    """The sequence in the order of computation."""
    if direction not in ("forward", "reverse"):
        raise ValueError(f"direction {direction!r}")
    return x[::-1] if direction == "reverse" else x


def _project(call: Call, x: Array, weight: Array, bias: Array | None, suffix: str = "", name: str = "bias") -> Array:
    """The input's contribution to the gates of all steps: [s, b, gates]."""
    operands = {"x": x, f"weight_ih{suffix}": weight, f"{name}{suffix}": bias}
    return product(call, f"project{suffix}", operands, transposed=True)


def _recur(call: Call, h: Array, weight: Array, suffix: str = "", key: str = "") -> Array:
    """The state's contribution to the gates that ``weight`` belongs to: [b, gates]."""
    return product(call, f"recur{suffix}{key}", {"h": h, f"weight_hh{suffix}": weight}, transposed=True)
