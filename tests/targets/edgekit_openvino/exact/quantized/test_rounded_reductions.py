"""Reductions of three axes that are rounded to integers: OpenVINO mistakes the axis, and converted models do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

RANDOM = np.random.default_rng(3)


def model(body: str, batch: int | str, axis: int = 2) -> onnx.ModelProto:
    """One that multiplies channels by different numbers, reduces them and quantizes what is left."""
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]>\ng (float[{batch}, 3, 9] x) => (uint8[a, b, c] y) '
        f"<float s = {{0.02}}, uint8 z = {{100}}, int64[1] k = {{{axis}}}, float[1, 3, 1] w = {{0.1, 0.4, 0.9}},"
        "float[1, 3, 1] v = {0.3, -0.1, 0.2}>"
        f" {{ m = Mul (x, w)  p = Add (m, v)  {body}  y = QuantizeLinear (r, s, z) }}"
    )


@pytest.mark.parametrize("batch", [2, "N"])
@pytest.mark.parametrize(
    ("body", "axis"), [("r = GlobalMaxPool (p)", 2), ("r = ReduceMax (p, k)", 0), ("r = ReduceMax (p, k)", 2)]
)
def test_constants_ahead_of_a_maximum(body: str, axis: int, batch: int | str, tmp_path: Path) -> None:
    proto = model(body, batch, axis)
    feeds = {"x": RANDOM.normal(size=(2, 3, 9)).astype(np.float32)}
    right = expected(proto, feeds).astype(int)
    if axis:
        assert np.abs(as_read(proto, feeds, tmp_path).astype(int) - right).max() > 5  # still
    assert np.abs(converted(proto, feeds, tmp_path).astype(int) - right).max() == 0


@pytest.mark.parametrize(
    "body", ["r = GlobalAveragePool (p)", "r = ReduceMin (p, k)", "f = Relu (p) r = ReduceL2 (f, k)"]
)
def test_other_reductions(body: str, tmp_path: Path) -> None:
    proto, feeds = model(body, 4), {"x": RANDOM.normal(size=(4, 3, 9)).astype(np.float32)}
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path), expected(proto, feeds))


@pytest.mark.parametrize("sizes", ["4, 3, 5", "N, 3, 5"])
@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceL2"])
def test_an_axis_that_is_dropped_ahead_of_numbers_along_another_one(kind: str, sizes: str, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]>\ng (float[{sizes}] x) => (uint8[a, b] y) <float s = {{0.02}},'
        " uint8 z = {100}, int64[1] k = {1}, float[5] w = {0.4, 0.3, 1.6, 0.7, 1.8}>"
        f" {{ r = {kind} <keepdims = 0> (x, k)  m = Mul (r, w)  y = QuantizeLinear (m, s, z) }}"
    )
    feeds = {"x": RANDOM.normal(size=(4, 3, 5)).astype(np.float32)}
    right = expected(proto, feeds).astype(int)
    assert np.abs(as_read(proto, feeds, tmp_path).astype(int) - right).max() > 5  # still
    assert np.abs(converted(proto, feeds, tmp_path).astype(int) - right).max() <= 1  # one step, for a tie


def test_an_average_behind_numbers_for_each_channel(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]>\ng (float[4, 3, L] x) => (float[4, 3, 1] y) <float s = {0.02},'
        " uint8 z = {100}, float[1, 3, 1] w = {0.1, 0.4, 0.9}> { q = QuantizeLinear (x, s, z)"
        "  d = DequantizeLinear (q, s, z)  f = LeakyRelu (d)  m = Mul (f, w)  y = GlobalAveragePool (m) }"
    )
    feeds = {"x": RANDOM.normal(size=(4, 3, 5)).astype(np.float32)}
    right = expected(proto, feeds)
    assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 0.05  # still
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, atol=1e-5)


@pytest.mark.parametrize("sizes", ["4, 3, 5", "N, 3, 5"])
@pytest.mark.parametrize(
    "behind",
    [
        "q = QuantizeLinear (r, s, z)  d = DequantizeLinear (q, s, z)  y = Add (d, w)",
        "n = BatchNormalization (r, w, w, w, w)  q = QuantizeLinear (n, s, z)  y = DequantizeLinear (q, s, z)",
    ],
)
def test_an_axis_that_is_dropped_ahead_of_a_rounding(behind: str, sizes: str, tmp_path: Path) -> None:
    """With numbers for each place along another axis behind the rounding, or in a normalization ahead of it."""
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]>\ng (float[{sizes}] x) => (float[a, b] y) <float s = {{0.03}},'
        " uint8 z = {100}, int64[1] k = {1}, float[5] w = {0.4, 0.3, 1.6, 0.7, 1.8}>"
        f" {{ r = ReduceSum <keepdims = 0> (x, k)  {behind} }}"
    )
    feeds = {"x": RANDOM.normal(size=(4, 3, 5)).astype(np.float32)}
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), expected(proto, feeds), atol=0.0301)  # one step


@pytest.mark.parametrize("sizes", ["2, 10, 5", "N, 10, 5"])
def test_an_axis_that_is_dropped_behind_numbers_along_another_one(sizes: str, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]>\ng (float[{sizes}] x) => (float[a, b] y) <float s = {{0.01}},'
        " uint8 z = {120}, int64[1] k = {1}, float[5] w = {0.4, -0.3, 0.6, 0.1, -0.8}> { q = QuantizeLinear (x, s, z)"
        "  d = DequantizeLinear (q, s, z)  m = Add (d, w)  r = ReduceMean <keepdims = 0> (m, k)"
        "  p = QuantizeLinear (r, s, z)  y = DequantizeLinear (p, s, z) }"
    )
    feeds = {"x": RANDOM.normal(size=(2, 10, 5)).astype(np.float32)}
    right = expected(proto, feeds)
    assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 0.05  # still
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, atol=0.0101)  # one step


@pytest.mark.parametrize("sizes", ["3, 40, 16", "N, 40, 16"])
def test_pooling_by_several_reductions_that_are_scaled_and_rounded_together(sizes: str, tmp_path: Path) -> None:
    """As smoothing writes it ahead of a matrix product with 8-bit weights: the plugin rounds ahead of the Concat."""
    factors = ", ".join(f"{number:.3f}" for number in np.linspace(0.3, 4, 32))
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]>\ng (float[{sizes}] x) => (float[a, b] y) <float s = {{0.02}},'
        f" uint8 z = {{100}}, int64[1] k = {{1}}, float[32] w = {{{factors}}}> {{"
        "  m = ReduceMean <keepdims = 0> (x, k)  l = ReduceL2 <keepdims = 0> (x, k)  c = Concat <axis = 1> (m, l)"
        "  p = Mul (c, w)  q = QuantizeLinear (p, s, z)  d = DequantizeLinear (q, s, z)"
        "  i = DequantizeLinear (t, s)  y = MatMul (d, i) }"
    )
    weights = RANDOM.integers(-127, 128, (32, 4)).astype(np.int8)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "t"))
    feeds = {"x": RANDOM.uniform(0, 0.4, (3, 40, 16)).astype(np.float32)}
    right = expected(proto, feeds)
    one_step = 0.02 * np.abs(weights * np.float32(0.02)).sum(0).max()
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, atol=0.1 * one_step)


def test_a_scalar_that_is_quantized_meets_a_reduction(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]>\ng (float[N, 5, 4] x) => (float[a, b, c] y) <float s = {0.02},'
        " uint8 z = {100}, uint8 v = {130}, int64[1] k = {2}> { w = DequantizeLinear (v, s, z)  p = Add (w, x)"
        "  q = QuantizeLinear (p, s, z)  d = DequantizeLinear (q, s, z)  y = ReduceMean (d, k) }"
    )
    feeds = {"x": RANDOM.normal(size=(3, 5, 4)).astype(np.float32)}
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), expected(proto, feeds), atol=0.0201)
