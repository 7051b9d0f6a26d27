"""Recurrent layers. Sequences are [s, b, I], states [b, H].

The gates' equations are those of the operations' documentation, which leaves three things to Core ML's
NeuralNetwork.proto: the constants of ``hard_sigmoid``; that ``clip`` limits the cell state; and that the backward half
of a bidirectional layer's sequence is in the order of the input. With ``direction="reverse"``, in contrast, a sequence
is in the order in which it was computed: last input first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

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
    # With its factors at their defaults of 1, as Apple's test of the LSTM has it.
    "scaled_tanh": np.tanh,
    "hard_sigmoid": _hard_sigmoid,
    "sigmoid_hard": _hard_sigmoid,
}


@dataclass(frozen=True)
class _LSTMCell:
    """One direction of an LSTM; gates in the order input, forget, output, cell."""

    call: Call
    suffix: str
    """What the names of this direction's weights end with."""
    weight_ih: Array
    weight_hh: Array
    bias: Array | None
    peephole: Array | None
    activations: Sequence[Activation]
    """Of the gates, of the cell's input, of the cell's output."""
    clip: float | None

    def run(self, x: Array, h: Array, c: Array) -> tuple[Array, Array, Array]:
        """All hidden states, the last one, and the last cell state."""
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
        cell state [b, H]. Of a bidirectional layer H is the forward direction's states followed by the backward one's.
    """
    activations = [_ACTIVATIONS[name] for name in (recurrent_activation, cell_activation, activation)]
    forward = _LSTMCell(call, "", weight_ih, weight_hh, bias, peephole, activations, clip)
    if direction != "bidirectional":
        outputs, h, c = forward.run(_directed(x, direction), initial_h, initial_c)
        return outputs if output_sequence else h[np.newaxis], h, c
    if weight_ih_back is None or weight_hh_back is None:
        raise ValueError("a bidirectional LSTM without backward weights")
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

    The reset gate multiplies the previous state before its product with the recurrent weights or, with ``reset_after``
    (iOS 18), that product and ``bias`` after it; then ``bias`` is the recurrent one beside ``input_bias``.

    Returns:
        The hidden states of all steps [s, b, H], or of the last one [1, b, H]; the last hidden state [b, H].
    """
    gate, output = _ACTIVATIONS[recurrent_activation], _ACTIVATIONS[activation]
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
    """What the input contributes to the gates of all steps: [s, b, gates]."""
    operands = {"x": x, f"weight_ih{suffix}": weight, f"{name}{suffix}": bias}
    return product(call, f"project{suffix}", operands, transposed=True)


def _recur(call: Call, h: Array, weight: Array, suffix: str = "", key: str = "") -> Array:
    """What a state contributes to the gates that ``weight`` belongs to: [b, gates]."""
    return product(call, f"recur{suffix}{key}", {"h": h, f"weight_hh{suffix}": weight}, transposed=True)
