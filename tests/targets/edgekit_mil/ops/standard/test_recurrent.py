from __future__ import annotations

import numpy as np
import pytest

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
SIZES = {"steps": 4, "batch": 3, "inputs": 5, "hidden": 2}
OUTPUTS = {"RNN": 2, "GRU": 2, "LSTM": 3}


def layer(rng, op_type, directions=1, *, steps=4, layout=0, lengths=None, peepholes=False, initial=True, bias=True):
    """The inputs of a recurrent node."""
    batch, inputs, hidden, gates = SIZES["batch"], SIZES["inputs"], SIZES["hidden"], GATES[op_type]

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    def state():
        return normal(directions, batch, hidden).transpose((1, 0, 2) if layout else (0, 1, 2)) if initial else None

    feeds = [
        normal(*((batch, steps) if layout else (steps, batch)), inputs),
        normal(directions, gates * hidden, inputs),
        normal(directions, gates * hidden, hidden),
        normal(directions, 2 * gates * hidden) if bias else None,
        None if lengths is None else np.array(lengths, np.int32),
        state(),
    ]
    if op_type == "LSTM":
        feeds += [state(), normal(directions, 3 * hidden) if peepholes else None]
    return feeds


def attributes(op_type, **others):
    return {"outputs": ("float32",) * OUTPUTS[op_type], "hidden_size": SIZES["hidden"], "opset": 21, **others}


@pytest.mark.parametrize("fed", [(0,), (0, 1, 2, 3, 5)], ids=["constant", "computed"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op_type", GATES)
def test_directions_agree(agrees, rng, op_type, direction, fed):
    inputs = layer(rng, op_type, 2 if direction == "bidirectional" else 1)
    agrees(op_type, inputs, fed=fed, **attributes(op_type, direction=direction))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op_type", GATES)
def test_lengths_agree(agrees, rng, op_type, direction):
    inputs = layer(rng, op_type, 2 if direction == "bidirectional" else 1, lengths=[2, 4, 1])
    agrees(op_type, inputs, fed=(0, 4), **attributes(op_type, direction=direction))


@pytest.mark.parametrize("fed", [(0,), (0, 5)])
@pytest.mark.parametrize("op_type", GATES)
def test_batch_can_come_first(agrees, rng, op_type, fed):
    inputs = layer(rng, op_type, 2, layout=1)
    agrees(op_type, inputs, fed=fed, against="reference", **attributes(op_type, direction="bidirectional", layout=1))


@pytest.mark.parametrize("op_type", GATES)
def test_bias_and_initial_states_can_be_left_out(agrees, rng, op_type):
    agrees(op_type, layer(rng, op_type, initial=False, bias=False), **attributes(op_type))


@pytest.mark.parametrize("fed", [(0,), (0, 7)])
def test_peepholes_agree(agrees, rng, fed):
    agrees("LSTM", layer(rng, "LSTM", peepholes=True), fed=fed, **attributes("LSTM"))


def test_coupled_gates_agree(agrees, rng):
    agrees("LSTM", layer(rng, "LSTM"), **attributes("LSTM", input_forget=1))


@pytest.mark.parametrize("fed", [(0,), (0, 1, 2, 3)])
def test_reset_after_the_product_agrees(agrees, rng, fed):
    agrees("GRU", layer(rng, "GRU"), fed=fed, **attributes("GRU", linear_before_reset=1))


@pytest.mark.parametrize("op_type", GATES)
def test_long_sequences_become_loops(agrees, rng, op_type):
    inputs = layer(rng, op_type, steps=40, lengths=[40, 1, 30])
    agrees(op_type, inputs, **attributes(op_type))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Relu", {}),
        ("Sigmoid", {}),
        ("Softsign", {}),
        ("Softplus", {}),
        ("Affine", {"activation_alpha": [0.5], "activation_beta": [0.25]}),
        ("LeakyRelu", {"activation_alpha": [0.3]}),
        ("ThresholdedRelu", {"activation_alpha": [0.4]}),
        ("ScaledTanh", {"activation_alpha": [0.7], "activation_beta": [1.3]}),
        ("HardSigmoid", {"activation_alpha": [0.3], "activation_beta": [0.4]}),
        ("Elu", {"activation_alpha": [0.6]}),
    ],
)
def test_activations_agree(agrees, rng, name, parameters):
    agrees("RNN", layer(rng, "RNN"), **attributes("RNN", activations=[name], **parameters))


@pytest.mark.parametrize("op_type", GATES)
def test_clipping_agrees(agrees, rng, op_type):
    agrees(op_type, layer(rng, op_type), **attributes(op_type, clip=0.4))
