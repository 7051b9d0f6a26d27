"""Products on both sides of a Softmax, the first one of integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino
from edgekit.instruction_sets import WITHOUT_VNNI, own_set
from edgekit_openvino.exact.quantized.softmax_products import widen_behind_softmax
from edgekit_openvino.runner import SETTINGS

HEAD = '<ir_version: 9, opset_import: ["": 19]>'
FIRST = """u = QuantizeLinear (x, s, z) v = DequantizeLinear (u, s, z)
    w = DequantizeLinear <axis = 1> (q1, c1, n1) p = MatMul (v, w)"""
ROUNDED = "g = QuantizeLinear (f, t, z) h = DequantizeLinear (g, t, z)"
SECOND = "k = DequantizeLinear <axis = 1> (q2, c2, n2) y = MatMul (h, k)"
BETWEEN = {
    "Softmax": "f = Softmax (p) h = Identity (f)",
    "Clip": "m = Clip (p, low, high) f = Softmax (m) h = Identity (f)",
    "scale": "m = Mul (p, s) l = Softmax (m) h = Mul (t, l)",
    "rounded": f"m = Clip (p, low, high) f = Softmax (m) {ROUNDED}",
}


def model(between: str, zero: np.generic, shape: tuple[int, ...]) -> onnx.ModelProto:
    inputs, outputs = (", ".join(map(str, sizes)) for sizes in (shape, (*shape[:-1], 48)))
    proto = onnx.parser.parse_model(
        f"{HEAD} agraph (float[{inputs}] x) => (float[{outputs}] y) {{ {FIRST} {between} {SECOND} }}"
    )
    rng = np.random.default_rng(0)
    held = {
        "s": np.float32(0.03),
        "t": np.float32(0.01),
        "z": zero,
        "c1": rng.uniform(0.001, 0.005, 32).astype(np.float32),
        "c2": rng.uniform(0.001, 0.005, 48).astype(np.float32),
        "n1": np.zeros(32, np.int8),
        "n2": np.zeros(48, np.int8),
        "q1": rng.integers(-60, 61, (64, 32)).astype(np.int8),
        "q2": rng.integers(-60, 61, (32, 48)).astype(np.int8),
        "low": np.float32(-1),
        "high": np.float32(2),
    }
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(each), name) for name, each in held.items())
    return proto


def fed(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {"x": np.abs(np.random.default_rng(1).standard_normal(shape)).astype(np.float32)}


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("zero", [np.uint8(0), np.int8(0)])
@pytest.mark.parametrize("shape", [(1, 64), (4, 64), (2, 4, 64)])
def test_gates_are_right(between: str, zero: np.generic, shape: tuple[int, ...], tmp_path: Path) -> None:
    proto = model(BETWEEN[between], zero, shape)
    (expected,) = ReferenceEvaluator(proto).run(None, fed(shape))
    found = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "m")).run(fed(shape))["y"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.02 * float(np.abs(expected).max()))


@pytest.mark.parametrize(("between", "widened"), [("f = Softmax (p) h = Relu (f)", 1), ("h = Relu (p)", 0)])
def test_only_such_are_widened(between: str, widened: int, tmp_path: Path) -> None:
    onnx.save(model(between, np.uint8(0), (4, 64)), tmp_path / "m.onnx")
    assert len(widen_behind_softmax(openvino.Core().read_model(tmp_path / "m.onnx"))) == widened


@pytest.mark.skipif(own_set() in WITHOUT_VNNI, reason="this processor has no VNNI")
def test_openvino_still_computes_them_wrong(tmp_path: Path) -> None:
    """If this fails, OpenVINO has fixed it."""
    proto = model(BETWEEN["Softmax"], np.uint8(0), (4, 64))
    onnx.save(proto, tmp_path / "m.onnx")
    (expected,) = ReferenceEvaluator(proto).run(None, fed((4, 64)))
    config = {**SETTINGS, "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    found = openvino.Core().compile_model(tmp_path / "m.onnx", "CPU", config)(fed((4, 64)))["y"]
    assert not np.allclose(found, expected, atol=0.1 * float(np.abs(expected).max()))
