"""Transposed operands that follow from constants by operators that OpenVINO does not fold."""

from __future__ import annotations

import numpy as np
import onnx
import openvino
import pytest

import edgekit_openvino

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.standard_normal((8, 12)).astype(np.float32)
PLACES = RANDOM.integers(0, 8, (8, 12))
CALLS = {
    "product": "t = Transpose <perm = [1, 2, 0]> (s) y = MatMul (x, t)",
    "equation": 'y = Einsum <equation = "nih,tnh->nit"> (x, s)',
}


def model(call: str) -> onnx.ModelProto:
    """Positions relative to each other, gathered from a table, as Funnel and other transformers export them."""
    text = (
        '<ir_version: 9, opset_import: ["" : 18]>\ng (float[3, 5, 4] x) => (float[3, 5, 8] y) <int64[3] z = {8, 3, 4}>'
        f" {{ g = GatherElements <axis = 0> (table, places) s = Reshape (g, z) {call} }}"
    )
    made = onnx.parser.parse_model(text)
    constants = {"table": TABLE, "places": PLACES}
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    return made


@pytest.mark.parametrize("name", CALLS)
def test_they_are_read_in_their_own_order(name, tmp_path):
    proto = model(CALLS[name])
    feeds = {"x": RANDOM.standard_normal((3, 5, 4)).astype(np.float32)}
    operand = np.take_along_axis(TABLE, PLACES, 0).reshape(8, 3, 4)
    expected = np.einsum("nih,tnh->nit", feeds["x"], operand)
    plain = openvino.compile_model(openvino.Core().read_model(proto.SerializeToString()), "CPU")
    if name == "equation":
        assert not np.allclose(plain(feeds)[0], expected, atol=1e-3), "OpenVINO has learned it"
    got = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "model")).run(feeds)["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_what_openvino_folds_stays_as_it_is(tmp_path):
    """Weights in 8 bits stay stored as they are."""
    text = (
        '<ir_version: 9, opset_import: ["" : 18]>\ng (float[3, 5, 4] x) => (float[3, 5, 8] y) <float s = {0.01}>'
        " { w = DequantizeLinear (q, s) t = Transpose <perm = [1, 2, 0]> (w) y = MatMul (x, t) }"
    )
    proto = onnx.parser.parse_model(text)
    weights = RANDOM.integers(-99, 99, (8, 3, 4)).astype(np.int8)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "q"))
    path = edgekit_openvino.convert(proto, tmp_path / "model")
    assert path.with_suffix(".bin").stat().st_size < weights.size * 4
