from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml

STEPS, INPUT, HIDDEN = 5, 6, 4


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantized_lstm_agrees(agrees, rng, direction, per_channel, dtype):
    count = 2 if direction == "bidirectional" else 1
    limits = np.iinfo(dtype)
    w, r = (rng.integers(limits.min, limits.max, (count, size, 4 * HIDDEN)).astype(dtype) for size in (INPUT, HIDDEN))
    scales = (count, 4 * HIDDEN) if per_channel else (count,)
    parameters = [
        part
        for _ in range(2)
        for part in (rng.uniform(0.002, 0.01, scales).astype(np.float32), np.full(scales, limits.max // 2, dtype))
    ]
    if dtype is np.int8:
        parameters[1::2] = [np.zeros(scales, dtype)] * 2
    x = rng.standard_normal((STEPS, 1, INPUT)).astype(np.float32)
    states = [rng.standard_normal((count, 1, HIDDEN)).astype(np.float32) for _ in range(2)]
    bias = rng.standard_normal((count, 8 * HIDDEN)).astype(np.float32)
    agrees(
        "DynamicQuantizeLSTM", [x, w, r, bias, None, *states, None, *parameters], fed=[0, 5, 6],
        outputs=["float32"] * 3, domain="com.microsoft", atol=1e-4, direction=direction, hidden_size=HIDDEN,
    )  # fmt: skip


@pytest.mark.parametrize("steps", [1, 40])
@pytest.mark.parametrize("per_channel", [False, True])
def test_the_weights_of_a_quantized_lstm_take_a_byte_each(tmp_path, rng, steps, per_channel):
    size, hidden, count = 48, 32, 2
    scales = (count, 4 * hidden) if per_channel else (count,)
    values = {
        "w": rng.integers(-127, 127, (count, size, 4 * hidden)).astype(np.int8),
        "r": rng.integers(-127, 127, (count, hidden, 4 * hidden)).astype(np.int8),
        "b": rng.standard_normal((count, 8 * hidden)).astype(np.float32),
        "scale": rng.uniform(0.002, 0.01, scales).astype(np.float32),
        "zero": np.zeros(scales, np.int8),
    }
    inputs = ["x", "w", "r", "b", "", "", "", "", "scale", "zero", "scale", "zero"]
    node = onnx.helper.make_node(
        "DynamicQuantizeLSTM", inputs, ["y"], domain="com.microsoft", direction="bidirectional", hidden_size=hidden
    )
    x_info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [steps, 1, size])
    y_info = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [steps, count, 1, hidden])
    initializers = [onnx.numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = onnx.helper.make_graph([node], "g", [x_info], [y_info], initializers)
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32")
    x = rng.standard_normal((steps, 1, size), dtype=np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_allclose(edgekit_coreml.load(package).run({"x": x})["y"], expected, atol=1e-3)
    # of a single step the product of the first state, zeros, is worked out, and its weights are gone
    least = values["w"].size + (values["r"].size if steps > 1 else 0)
    others = 4 * (values["b"].size + values["scale"].size * 2 + count * steps * hidden) + 64 * 40
    stored = (package / "Data/com.apple.CoreML/weights/weight.bin").stat().st_size
    assert least <= stored < values["w"].size + values["r"].size + others
