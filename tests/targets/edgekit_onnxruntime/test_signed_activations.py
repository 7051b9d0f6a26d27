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


OTHERS = {
    "also an output": ("int8[3,4] k", "q = QuantizeLinear(x, e, z) d = DequantizeLinear(q, e, z) k = Identity(q)"),
    "also cast": ("float[3,4] k", "q = QuantizeLinear(x, e, z) d = DequantizeLinear(q, e, z) k = Cast <to = 1> (q)"),
    "also without a zero point": (
        "float[3,4] k",
        "q = QuantizeLinear(x, e, z) d = DequantizeLinear(q, e, z) k = DequantizeLinear(q, e)",
    ),
    "another zero point": ("float[3,4] k", "q = QuantizeLinear(x, e, n) d = DequantizeLinear(q, e, z) k = Neg(x)"),
    "quantized without one": (
        "float[3,4] k",
        "q = QuantizeLinear <output_dtype = 3> (x, e) d = DequantizeLinear(q, e, z) k = Neg(x)",
    ),
}
"""Further outputs, and how integers come about and are read."""


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("zero_point", [0, 17])
def test_int8_activations_that_other_operators_read_load_and_give_the_same(
    tmp_path: Path, zero_point: int, others: str
) -> None:
    output, nodes = OTHERS[others]
    text = f"""<ir_version: 10, opset_import: ["" : 21]> g (float[3,4] x) => (float[4,3] y, {output})
        <float e = {{{SCALE}}}, int8 z = {{{zero_point}}}, int8 n = {{-9}}> {{ {nodes} y = Transpose(d) }}"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    with pytest.raises(Fail, match="output_dtype INT8"):
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).normal(0, 4, (3, 4)).astype(np.float32)

    found = edgekit_onnxruntime.load(edgekit_onnxruntime.convert(path, tmp_path / "m.ort")).run({"x": x})

    added = {"another zero point": -9, "quantized without one": 0}.get(others, zero_point)
    integers = np.clip(np.rint(x / np.float32(SCALE)) + added, -128, 127)
    scaled = (integers - zero_point) * np.float32(SCALE)
    np.testing.assert_allclose(found["y"], scaled.T, rtol=1e-5, atol=1e-5)
    if others.startswith("also"):
        step = np.float32(SCALE) if "zero point" in others else 1
        np.testing.assert_allclose(found["k"], integers * step, rtol=1e-5, atol=1e-5)


def test_integers_that_no_zero_point_is_taken_off_stay(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[3] x) => (float[3] y, int8[3] q)
        <float e = {0.5}, int8 z = {0}> { q = QuantizeLinear(x, e, z) y = DequantizeLinear(q, e) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    loaded = Load()(tmp_path / "m.onnx").model
    assert loadable_activations(loaded) is loaded
