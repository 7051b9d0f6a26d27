from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

# So large that the products go through ONNX Runtime; the activations below are tested with small ones.
STEPS, BATCH, INPUT, HIDDEN = 5, 3, 20, 128
# PyTorch stacks the gates of an LSTM as input, forget, cell, output, those of a GRU as reset, update, new.
LSTM_ORDER, GRU_ORDER = (0, 1, 3, 2), (0, 2, 1)


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


def reorder(parameter, order):
    gates = np.split(parameter.detach().numpy(), len(order))
    return np.concatenate([gates[index] for index in order])


def close(actual, expected):
    np.testing.assert_allclose(actual, np.asarray(expected), rtol=1e-3, atol=1e-4)


def lstm_inputs(net, suffix=""):
    names = {"weight_ih": "weight_ih_l0", "weight_hh": "weight_hh_l0"}
    inputs = {mil: reorder(getattr(net, name + suffix), LSTM_ORDER) for mil, name in names.items()}
    bias = getattr(net, "bias_ih_l0" + suffix) + getattr(net, "bias_hh_l0" + suffix)
    return {**inputs, "bias": reorder(bias, LSTM_ORDER)}


@pytest.mark.parametrize("output_sequence", [True, False])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_lstm_agrees_with_torch(run_op, rng, direction, output_sequence):
    torch.manual_seed(0)
    net = torch.nn.LSTM(INPUT, HIDDEN)
    x, h, c = normal(rng, STEPS, BATCH, INPUT), normal(rng, BATCH, HIDDEN), normal(rng, BATCH, HIDDEN)
    in_order = x[::-1].copy() if direction == "reverse" else x
    with torch.no_grad():
        sequence, (last_h, last_c) = net(torch.tensor(in_order), (torch.tensor(h)[None], torch.tensor(c)[None]))
    outputs = run_op(
        "lstm", x=x, initial_h=h, initial_c=c, **lstm_inputs(net), direction=direction, output_sequence=output_sequence,
        dtypes=["float32"] * 3,
    )  # fmt: skip
    close(outputs[0], sequence if output_sequence else sequence[-1:])
    close(outputs[1], last_h[0])
    close(outputs[2], last_c[0])


@pytest.mark.parametrize("output_sequence", [True, False])
def test_bidirectional_lstm_agrees_with_torch(run_op, rng, output_sequence):
    torch.manual_seed(0)
    net = torch.nn.LSTM(INPUT, HIDDEN, bidirectional=True)
    x, h, c = normal(rng, STEPS, BATCH, INPUT), normal(rng, 2, BATCH, HIDDEN), normal(rng, 2, BATCH, HIDDEN)
    with torch.no_grad():
        sequence, (last_h, last_c) = net(torch.tensor(x), (torch.tensor(h), torch.tensor(c)))
    backward = {f"{name}_back": value for name, value in lstm_inputs(net, "_reverse").items()}
    outputs = run_op(
        "lstm", x=x, initial_h=np.concatenate(list(h), -1), initial_c=np.concatenate(list(c), -1), **lstm_inputs(net),
        **backward, direction="bidirectional", output_sequence=output_sequence, dtypes=["float32"] * 3,
    )  # fmt: skip
    close(outputs[0], sequence if output_sequence else torch.cat(list(last_h), -1)[None])
    close(outputs[1], torch.cat(list(last_h), -1))
    close(outputs[2], torch.cat(list(last_c), -1))


def onnx_recurrent(op_type, feeds, **attributes):
    """The outputs Y and Y_h of an ONNX operator; feeds by the operator's input names, None for those left out."""
    node = onnx.helper.make_node(
        op_type, [name if value is not None else "" for name, value in feeds.items()], ["y", "y_h"], **attributes
    )
    present = {name: value for name, value in feeds.items() if value is not None}
    tensors = [onnx.helper.make_tensor_value_info(name, 1, value.shape) for name, value in present.items()]
    outputs = [onnx.helper.make_tensor_value_info(name, 1, None) for name in ("y", "y_h")]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", tensors, outputs),
        opset_imports=[onnx.helper.make_opsetid("", 14)],
        ir_version=8,
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    y, last = session.run(None, present)
    return y[:, 0], last[0]


def test_lstm_with_peepholes_agrees_with_onnx(run_op, rng):
    # The gates of ONNX's LSTM are input, output, forget, cell; its peepholes are input, output, forget.
    x, h, c = normal(rng, STEPS, BATCH, INPUT), normal(rng, BATCH, HIDDEN), normal(rng, BATCH, HIDDEN)
    weight_ih, weight_hh = normal(rng, 4 * HIDDEN, INPUT), normal(rng, 4 * HIDDEN, HIDDEN)
    bias, peephole = normal(rng, 4 * HIDDEN), normal(rng, 3 * HIDDEN)

    def swapped(values, order):
        gates = np.split(values, len(order))
        return np.concatenate([gates[index] for index in order])[None]

    gates = (0, 2, 1, 3)
    feeds = {
        "X": x, "W": swapped(weight_ih, gates), "R": swapped(weight_hh, gates),
        "B": np.concatenate([swapped(bias, gates), np.zeros((1, 4 * HIDDEN), np.float32)], 1), "lens": None,
        "h": h[None], "c": c[None], "P": swapped(peephole, (0, 2, 1)),
    }  # fmt: skip
    expected, last = onnx_recurrent("LSTM", feeds, hidden_size=HIDDEN, activations=["HardSigmoid", "Relu", "Tanh"])
    outputs = run_op(
        "lstm", x=x, initial_h=h, initial_c=c, weight_ih=weight_ih, weight_hh=weight_hh, bias=bias, peephole=peephole,
        output_sequence=True, recurrent_activation="hard_sigmoid", cell_activation="relu", dtypes=["float32"] * 3,
    )  # fmt: skip
    close(outputs[0], expected)
    close(outputs[1], last)


def test_lstm_clips_the_cell_state(run_op):
    # All gates are open (linear, with a bias of 1): the cell state grows by x, but not beyond the limit.
    x = np.array([1, 1, 1], np.float32).reshape(3, 1, 1)
    weight_ih = np.array([[0], [0], [0], [1]], np.float32)
    zero = np.zeros((1, 1), np.float32)
    outputs = run_op(
        "lstm", x=x, initial_h=zero, initial_c=zero, weight_ih=weight_ih, weight_hh=np.zeros((4, 1), np.float32),
        bias=np.array([1, 1, 1, 0], np.float32), output_sequence=True, recurrent_activation="linear",
        cell_activation="linear", activation="linear", clip=2.5, dtypes=["float32"] * 3,
    )  # fmt: skip
    np.testing.assert_array_equal(outputs[0].reshape(-1), [1, 2, 2.5])
    assert outputs[2].item() == 2.5


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_gru_resets_before_the_product(run_op, rng, direction):
    # The gates of ONNX's GRU are update, reset, hidden; linear_before_reset=0 is the default.
    x, h = normal(rng, STEPS, BATCH, INPUT), normal(rng, BATCH, HIDDEN)
    parts = {gate: (normal(rng, HIDDEN, INPUT), normal(rng, HIDDEN, HIDDEN), normal(rng, HIDDEN)) for gate in "roz"}
    mil = [np.concatenate([parts[gate][index] for gate in "roz"]) for index in range(3)]
    w, r, b = [np.concatenate([parts[gate][index] for gate in "zro"])[None] for index in range(3)]
    in_order = x[::-1].copy() if direction == "reverse" else x
    feeds = {"X": in_order, "W": w, "R": r, "B": np.concatenate([b, np.zeros_like(b)], 1), "lens": None, "h": h[None]}
    expected, last = onnx_recurrent("GRU", feeds, hidden_size=HIDDEN)
    outputs = run_op(
        "gru", x=x, initial_h=h, weight_ih=mil[0], weight_hh=mil[1], bias=mil[2], direction=direction,
        output_sequence=True, dtypes=["float32"] * 2,
    )  # fmt: skip
    close(outputs[0], expected)
    close(outputs[1], last)


def test_gru_that_resets_after_the_product_agrees_with_torch(run_op, rng):
    torch.manual_seed(0)
    net = torch.nn.GRU(INPUT, HIDDEN)
    x, h = normal(rng, STEPS, BATCH, INPUT), normal(rng, BATCH, HIDDEN)
    with torch.no_grad():
        sequence, last = net(torch.tensor(x), torch.tensor(h)[None])
    names = {"weight_ih": "weight_ih_l0", "weight_hh": "weight_hh_l0", "input_bias": "bias_ih_l0", "bias": "bias_hh_l0"}
    weights = {mil: reorder(getattr(net, name), GRU_ORDER) for mil, name in names.items()}
    inputs = {"x": x, "initial_h": h, **weights, "reset_after": True, "ios": 18, "dtypes": ["float32"] * 2}
    outputs = run_op("gru", **inputs, output_sequence=True)
    close(outputs[0], sequence)
    close(outputs[1], last[0])
    close(run_op("gru", **inputs)[0], sequence[-1:])


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_rnn_agrees_with_torch(run_op, rng, nonlinearity, direction):
    torch.manual_seed(0)
    net = torch.nn.RNN(INPUT, HIDDEN, nonlinearity=nonlinearity)
    x, h = normal(rng, STEPS, BATCH, INPUT), normal(rng, BATCH, HIDDEN)
    in_order = x[::-1].copy() if direction == "reverse" else x
    with torch.no_grad():
        sequence, last = net(torch.tensor(in_order), torch.tensor(h)[None])
    outputs = run_op(
        "rnn", x=x, initial_h=h, weight_ih=net.weight_ih_l0.detach().numpy(), direction=direction, output_sequence=True,
        weight_hh=net.weight_hh_l0.detach().numpy(), bias=(net.bias_ih_l0 + net.bias_hh_l0).detach().numpy(),
        activation=nonlinearity, dtypes=["float32"] * 2,
    )  # fmt: skip
    close(outputs[0], sequence)
    close(outputs[1], last[0])


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("sigmoid", torch.sigmoid),
        ("tanh", torch.tanh),
        ("scaled_tanh", torch.tanh),
        ("relu", torch.relu),
        ("linear", lambda x: x),
        ("sigmoid_hard", lambda x: torch.clamp(0.2 * x + 0.5, 0, 1)),
    ],
)
def test_activations(run_op, name, function):
    x = np.array([-100, -3, -0.5, 0, 0.5, 3, 100], np.float32)
    outputs = run_op(
        "rnn", x=x.reshape(1, -1, 1), initial_h=np.zeros((7, 1), np.float32), weight_ih=np.ones((1, 1), np.float32),
        weight_hh=np.zeros((1, 1), np.float32), activation=name, dtypes=["float32"] * 2,
    )  # fmt: skip
    np.testing.assert_allclose(outputs[0].reshape(-1), function(torch.tensor(x)), rtol=1e-5, atol=1e-7)


def layer_of(op_type, rng, *, both):
    """A layer's inputs, with every weight it can have."""
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[op_type] * HIDDEN
    width = 2 * HIDDEN if both else HIDDEN
    inputs = {
        "x": normal(rng, STEPS, BATCH, INPUT), "initial_h": normal(rng, BATCH, width),
        "weight_ih": normal(rng, gates, INPUT) / 4, "weight_hh": normal(rng, gates, HIDDEN) / 8,
        "bias": normal(rng, gates), "output_sequence": True,
    }  # fmt: skip
    if op_type == "lstm":
        inputs |= {"initial_c": normal(rng, BATCH, width), "peephole": normal(rng, 3 * HIDDEN)}
    if both:
        names = ("weight_ih", "weight_hh", "bias", "peephole")
        inputs |= {f"{name}_back": normal(rng, *inputs[name].shape) / 8 for name in names}
        inputs["direction"] = "bidirectional"
    return inputs


@pytest.mark.parametrize(
    ("op_type", "both", "options"),
    [
        ("lstm", False, {}),
        ("lstm", False, {"direction": "reverse", "output_sequence": False}),
        ("lstm", True, {}),
        ("lstm", True, {"output_sequence": False, "recurrent_activation": "hard_sigmoid", "activation": "scaled_tanh"}),
        ("gru", False, {}),
        ("gru", False, {"direction": "reverse", "output_sequence": False, "recurrent_activation": "hard_sigmoid"}),
        ("gru", False, {"reset_after": True, "ios": 18}),
        ("rnn", False, {"activation": "relu"}),
        ("rnn", False, {"direction": "reverse", "output_sequence": False}),
    ],
)
def test_layers_compute_the_same_step_by_step(run_op, rng, op_type, both, options):
    # Weights that are fed are not known beforehand: such a layer cannot be built as an operator of ONNX.
    inputs = {**layer_of(op_type, rng, both=both), **options, "dtypes": ["float32"] * (3 if op_type == "lstm" else 2)}
    fed = [name for name in inputs if name.startswith("weight")]
    for built, stepped in zip(run_op(op_type, **inputs), run_op(op_type, **inputs, fed=["x", *fed]), strict=True):
        np.testing.assert_allclose(built, stepped, rtol=1e-4, atol=1e-5)
