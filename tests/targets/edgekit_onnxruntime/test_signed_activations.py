"""Activations of int8, which ONNX Runtime refuses from opset 21 on, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

import edgekit_onnxruntime
from edgekit.stages.load import Load
from edgekit_onnxruntime.signed_activations import loadable_activations

SCALE = 0.05
BODIES = {
    "Transpose": ("float[4,3] y", "y = Transpose(d)"),
    "product with a bias": ("float[1,3,2] y", "r = Reshape(d, s) m = MatMul(r, w) y = Add(m, b)"),
    "Slice": ("float[1,4] y", "y = Slice(d, i, j)"),
}


def model(tmp_path: Path, zero_point: int, body: str) -> Path:
    output, nodes = BODIES[body]
    text = f"""<ir_version: 10, opset_import: ["" : 21]> g (float[3,4] x) => ({output})
        <float e = {{{SCALE}}}, int8 z = {{{zero_point}}}, int64[3] s = {{1, 3, 4}},
         int64[1] i = {{1}}, int64[1] j = {{2}},
         float[2] b = {{0.5, -1.0}}, float[4,2] w = {{1.0, -2.0, 0.5, 1.5, -1.0, 2.0, 0.25, -0.5}}>
        {{ q = QuantizeLinear(x, e, z) d = DequantizeLinear(q, e, z) {nodes} }}"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def expected(x: np.ndarray, zero_point: int, body: str) -> np.ndarray:
    steps = np.clip(np.rint(x / np.float32(SCALE)) + zero_point, -128, 127) - zero_point
    d = (steps * np.float32(SCALE)).astype(np.float32)
    if body == "Transpose":
        return d.T
    if body == "Slice":
        return d[1:2]
    w = np.array([[1, -2], [0.5, 1.5], [-1, 2], [0.25, -0.5]], np.float32)
    return (d @ w + np.array([0.5, -1], np.float32))[None]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("zero_point", [0, 17])
def test_int8_activations_load_and_give_the_same(tmp_path: Path, zero_point: int, body: str) -> None:
    path = model(tmp_path, zero_point, body)
    with pytest.raises(Fail, match="output_dtype INT8"):
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).normal(0, 4, (3, 4)).astype(np.float32)

    ort_file = edgekit_onnxruntime.convert(path, tmp_path / "m.ort")

    found = edgekit_onnxruntime.load(ort_file).run({"x": x})["y"]
    np.testing.assert_allclose(found, expected(x, zero_point, body), rtol=1e-5, atol=1e-5)


def test_integers_that_others_read_stay(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[3] x) => (float[3] y, int8[3] q)
        <float e = {0.5}, int8 z = {0}> { q = QuantizeLinear(x, e, z) y = DequantizeLinear(q, e, z) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    loaded = Load()(tmp_path / "m.onnx").model
    assert loadable_activations(loaded) is loaded
