"""Constants of two operations in a row: that OpenVINO still joins them with a loss, and that they are kept apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest

import edgekit_openvino

RANDOM = np.random.default_rng(4)
SECONDS = (1.6e9 + RANDOM.normal(0, 1e4, (40, 2))).astype(np.float32)
"""Times in seconds within some hours of 2020; neighboring float32 numbers are 128 apart there."""
RATIOS = RANDOM.uniform(5, 6, (400, 2)).astype(np.float32)


def parsed(inner: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]>\ng (float[n, 2] x) => (float[n, 2] y)'
        " <float[2] c = {1.6e9, 1.6e9}, float[2] less = {-1.6e9, -1.6e9}, float[2] s = {1e-4, 2e-4},"
        f" float[2] d = {{1e4, 5e3}}, float e = {{5.635796}}, float m = {{0.9757}}, float t = {{9e7}}> {{ {inner} }}"
    )


def by_onnxruntime_and_openvino(proto: onnx.ModelProto, x: np.ndarray, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns what ONNX Runtime computes node by node, and what OpenVINO computes of the file without corrections."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, {"x": x})[0]
    onnx.save(proto, folder / "plain.onnx")
    compiled = openvino.Core().compile_model(folder / "plain.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return expected, next(iter(compiled({"x": x}).values()))


@pytest.mark.parametrize(
    ("inner", "x"),
    [
        ("a = Sub(x, c) y = Mul(a, s)", SECONDS),
        ("a = Sub(x, c) y = Div(a, d)", SECONDS),
        ("a = Add(less, x) y = Mul(s, a)", SECONDS),
        ("q = Div(x, e) a = Sub(q, m) y = Mul(a, t)", RATIOS),
        ("q = Div(x, e) n = Neg(q) a = Add(n, m) y = Mul(a, t)", RATIOS),
    ],
    ids=["scaled", "divided", "sum", "of a quotient", "of a quotient's negative"],
)
def test_differences_that_are_amplified(tmp_path: Path, inner: str, x: np.ndarray) -> None:
    proto = parsed(inner)
    expected, plain = by_onnxruntime_and_openvino(proto, x, tmp_path)
    assert np.abs(plain - expected).max() > 1e-3  # OpenVINO is still wrong
    path = edgekit_openvino.convert(proto, tmp_path / "model")
    np.testing.assert_allclose(edgekit_openvino.load(path).run({"x": x})["y"], expected, rtol=3e-7)


MASK = np.array([[1, 1], [0, 1], [1, 0], [0, 0]], np.float32)


@pytest.mark.parametrize(
    ("inner", "x"),
    [
        ("s = Sub(one, x) t = Mul(s, least) y = Add(t, positions)", MASK),
        ("t = Add(x, less) y = Add(t, positions)", MASK * 1e6),
        ("t = Add(less, x) y = Sub(positions, t)", MASK * 1e6),
        ("t = Sub(less, x) y = Add(positions, t)", -MASK * 1e6),
        ("t = Mul(x, less) u = Sub(t, less) y = Sub(u, positions)", MASK),
    ],
    ids=["the least float", "sum", "subtracted", "negative", "scaled mask"],
)
def test_constants_behind_a_mask_of_attention(tmp_path: Path, inner: str, x: np.ndarray) -> None:
    """T5's relative positions are a constant where sizes are fixed, and stand behind the mask."""
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]>\ng (float[n, 2] x) => (float[n, 2] y)'
        " <float[2] one = {1, 1}, float[2] least = {-3.4e38, -3.4e38}, float[2] less = {-1e6, -1e6},"
        f" float[2] positions = {{0.123, -0.456}}> {{ {inner} }}"
    )
    expected, plain = by_onnxruntime_and_openvino(proto, x, tmp_path)
    assert np.abs(expected[0]).max() < 0.5
    assert np.abs(plain - expected).max() > 1e-3  # OpenVINO is still wrong
    path = edgekit_openvino.convert(proto, tmp_path / "model")
    np.testing.assert_allclose(edgekit_openvino.load(path).run({"x": x})["y"], expected, rtol=3e-7)


@pytest.mark.parametrize(
    ("inner", "x"),
    [
        ("a = Mul(x, least) y = Mul(a, eight)", MASK),
        ("a = Mul(small, x) y = Mul(small, a)", MASK * 1e36),
        ("a = Mul(x, small) b = Div(a, large) y = Mul(b, large)", MASK * 1e20),
    ],
    ids=["infinite", "0", "0 of a quotient"],
)
def test_factors_whose_product_is_beyond_the_range_of_floats(tmp_path: Path, inner: str, x: np.ndarray) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]>\ng (float[n, 2] x) => (float[n, 2] y)'
        " <float[2] least = {-3.4e38, -3.4e38}, float[2] eight = {8, 8}, float small = {1e-30}, float large = {1e30}>"
        f" {{ {inner} }}"
    )
    expected, plain = by_onnxruntime_and_openvino(proto, x, tmp_path)
    assert not np.allclose(plain, expected, atol=0)  # OpenVINO is still wrong
    path = edgekit_openvino.convert(proto, tmp_path / "model")
    np.testing.assert_allclose(edgekit_openvino.load(path).run({"x": x})["y"], expected, rtol=1e-5)


def test_a_usual_normalization_is_left_as_it_is(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]>\ng (float[n, 2] x) => (float[n, 2] y)'
        " <float c = {1995}, float s = {0.125}> { a = Sub(x, c) y = Mul(a, s) }"
    )
    assert 'type="Maximum"' not in edgekit_openvino.convert(proto, tmp_path / "model").read_text()
