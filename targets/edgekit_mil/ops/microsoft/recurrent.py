"""DynamicQuantizeLSTM of ``com.microsoft``, into which ONNX Runtime's quantizer turns an LSTM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Value, constant
from edgekit_mil.ops.microsoft.fused import DOMAIN
from edgekit_mil.ops.standard.recurrent import lstm_outputs
from edgekit_mil.support.linear_quantization import dynamically_rounded
from edgekit_mil.support.recurrent_nodes import Layer, passes
from edgekit_mil.support.stepwise_recurrence import activations_of
from edgekit_mil.support.stored_weights import Stored


@lowering("DynamicQuantizeLSTM", versions=[1], domain=DOMAIN, note="weights constant")
def dynamic_quantize_lstm(
    ctx: Context,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None,
    sequence_lens: Value | None,
    initial_h: Value | None,
    initial_c: Value | None,
    p: Value | None,
    w_scale: Value,
    w_zero_point: Value,
    r_scale: Value,
    r_zero_point: Value,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> list[Var]:
    """An LSTM with 8-bit weights, whose input and states are rounded to 8 bits of their current range.

    Weights are [directions, I, 4 H] and [directions, H, 4 H], scales and zero points [directions] or
    [directions, 4 H].
    """
    functions = activations_of(
        activations or ["Sigmoid", "Tanh", "Tanh"] * len(passes(direction)), activation_alpha, activation_beta, clip
    )
    stored = [
        (_stored(w, w_scale, w_zero_point, one), _stored(r, r_scale, r_zero_point, one))
        for one in range(len(passes(direction)))
    ]
    w, r = (constant(np.stack([one.values() for one in each])) for each in zip(*stored, strict=True))
    layer = Layer(x, w, r, b, sequence_lens, direction, 0, functions, clip, dynamically_rounded, stored)
    return lstm_outputs(layer, [initial_h, initial_c], p, input_forget=bool(input_forget))


def _stored(levels: Value, scale: Value, zero_point: Value, direction: int) -> Stored:
    """Weights of a direction, [4 H, I or H]."""
    numbers, scales, zeros = (
        value.require_constant(name)[direction]
        for value, name in ((levels, "a weight"), (scale, "a scale"), (zero_point, "a zero point"))
    )
    size: Sequence[int] = () if scales.size == 1 else (-1,)
    return Stored(np.ascontiguousarray(numbers.T), scales.reshape(size), zeros.reshape(size), 0)
