"""Operators that round activations inside, in floats: against NumPy and ONNX Runtime's operators on floats."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.execution.float_activations import with_activations_in_floats
from edgekit.model import Model

RNG = np.random.default_rng(2)
HEAD = '<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]> g'


def model(body: str, **constants: np.ndarray) -> Model:
    proto = onnx.parser.parse_model(f"{HEAD} {body}")
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    return Model(ir.from_proto(proto))


def run(proto: onnx.ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("columns", [(), (5,)], ids=["one scale", "a scale a column"])
def test_a_product(columns: tuple[int, ...]) -> None:
    stored = RNG.integers(0, 256, (8, 5)).astype(np.uint8)
    scale, zero = RNG.uniform(0.01, 0.02, columns).astype(np.float32), np.full(columns, 120, np.uint8)
    x, bias = floats(3, 8), floats(5)
    original = model(
        "(float[3, 8] x) => (float[3, 5] y) { y = com.microsoft.DynamicQuantizeMatMul (x, w, s, z, b) }",
        w=stored, s=np.asarray(scale), z=np.asarray(zero), b=bias,
    )  # fmt: skip
    changed = with_activations_in_floats(original)
    expected = x @ ((stored.astype(np.float32) - 120) * scale) + bias
    np.testing.assert_allclose(run(changed.proto(), x=x)[0], expected, rtol=1e-5, atol=1e-5)
    assert not np.allclose(run(original.proto(), x=x)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("columns", [False, True], ids=["a scale a direction", "a scale a column"])
def test_a_recurrent_layer(columns: bool) -> None:
    w, r = (RNG.integers(-127, 128, (2, rows, 20)).astype(np.int8) for rows in (3, 5))
    ws, rs = (RNG.uniform(0.01, 0.02, (2, 20) if columns else (2,)).astype(np.float32) for _ in range(2))
    zero, b, x = np.zeros(ws.shape, np.int8), floats(2, 40), floats(4, 1, 3)
    both = '<hidden_size = 5, direction = "bidirectional">'
    outputs = "(float[4, 2, 1, 5] y, float[2, 1, 5] h, float[2, 1, 5] c)"
    original = model(
        f"(float[4, 1, 3] x) => {outputs} {{ y, h, c = com.microsoft.DynamicQuantizeLSTM {both}"
        " (x, w, r, b, , , , , ws, wz, rs, rz) }",
        w=w, r=r, b=b, ws=ws, wz=zero, rs=rs, rz=zero,
    )  # fmt: skip
    wide = [np.broadcast_to(each.reshape(2, 1, -1), (2, 1, 20)) for each in (ws, rs)]
    floating = model(
        f"(float[4, 1, 3] x) => {outputs} {{ y, h, c = LSTM {both} (x, w, r, b) }}",
        w=(w * wide[0]).transpose(0, 2, 1).copy(), r=(r * wide[1]).transpose(0, 2, 1).copy(), b=b,
    )  # fmt: skip
    expected = run(floating.proto(), x=x)
    for found, right in zip(run(with_activations_in_floats(original).proto(), x=x), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def test_a_model_without_them_stays_itself() -> None:
    original = model("(float[3] x) => (float[3] y) { y = Relu (x) }")
    assert with_activations_in_floats(original) is original
