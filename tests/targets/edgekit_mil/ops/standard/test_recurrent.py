from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError

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


@pytest.mark.parametrize("op_type", GATES)
def test_the_last_state_of_a_sequence_of_length_0_is_0(agrees, rng, op_type):
    """The specification leaves it open; ONNX Runtime does not return the initial state."""
    inputs = layer(rng, op_type, lengths=[2, 0, 1])
    agrees(op_type, inputs, fed=(0, 4), **attributes(op_type))


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


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize(("attribute", "value"), [("clip", 0.0), ("clip", -1.0), ("layout", 2)])
def test_limits_and_layouts_that_do_not_exist_are_refused(tmp_path, op_type, attribute, value):
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[1, 1, 4] x) => (float[1, 1, 1, 5] y)'
        f" {{ y = {op_type} <hidden_size = 5, {attribute} = {value}> (x, a, b) }}"
    )
    for name, width in (("a", 4), ("b", 5)):
        weights = np.ones((1, GATES[op_type] * 5, width), np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    with pytest.raises(UnsupportedOpsError, match=r"clips at|has layout 2"):
        edgekit_coreml.convert(model, tmp_path / "m")


@pytest.mark.parametrize("per_row", [True, False])
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("RNN", {}),
        ("GRU", {}),
        ("LSTM", {}),
        ("RNN", {"clip": 3.0}),
        ("GRU", {"linear_before_reset": 1}),
        ("LSTM", {"input_forget": 1}),
    ],
    ids=str,
)
def test_quantized_weights_take_a_byte_each(tmp_path, rng, op_type, attributes, per_row):
    steps, size, hidden = 30, 40, 32
    rows = GATES[op_type] * hidden
    shapes = {"w": (1, rows, size), "r": (1, rows, hidden)}
    values = {name: rng.integers(-127, 127, shape).astype(np.int8) for name, shape in shapes.items()}
    weights = sum(value.size for value in values.values())
    scale = rng.uniform(0.001, 0.004, rows if per_row else 1).astype(np.float32)
    values |= {"scale": scale if per_row else scale[0], "b": rng.standard_normal((1, 2 * rows)).astype(np.float32)}
    axis = {"axis": 1} if per_row else {}
    nodes = [
        *(onnx.helper.make_node("DequantizeLinear", [name, "scale"], [f"{name}_real"], **axis) for name in shapes),
        onnx.helper.make_node(op_type, ["x", "w_real", "r_real", "b"], ["y"], hidden_size=hidden, **attributes),
    ]
    x_info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [steps, 1, size])
    y_info = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [steps, 1, 1, hidden])
    initializers = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]
    graph = onnx.helper.make_graph(nodes, "g", [x_info], [y_info], initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32")
    x = rng.standard_normal((steps, 1, size), dtype=np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_allclose(edgekit_coreml.load(package).run({"x": x})["y"], expected, atol=1e-4)
    stored = (package / "Data/com.apple.CoreML/weights/weight.bin").stat().st_size
    others = 4 * (values["b"].size + 3 * rows + steps * hidden) + 64 * 30
    assert weights <= stored < weights + others
