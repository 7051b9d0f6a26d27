"""Operators that EdgeKit converts in the place of OpenVINO's frontend, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest

import edgekit_openvino

TEXT = """<ir_version: 9, opset_import: ["" : 18]> g (float[SHAPE] x) => (uint8[SHAPE] y, float s, uint8 z) {
    y, s, z = DynamicQuantizeLinear (x) }"""
RNG = np.random.default_rng(3)
ODD = np.array([-3, -1, 1, 3], np.float32)
SYMMETRIC = [np.concatenate([x, -x]).astype(np.float32) for x in RNG.standard_normal((20, 7))]


@pytest.mark.parametrize("sizes", ["n", "2, m"])
def test_ranges_around_zero_have_the_scale_and_the_zero_point_of_onnx(sizes: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(TEXT.replace("SHAPE", sizes))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    for row in (*SYMMETRIC, ODD, np.zeros(4, np.float32), RNG.standard_normal(40).astype(np.float32)):
        x = row if sizes == "n" else row.reshape(2, -1)
        y, scale, zero_point = session.run(None, {"x": x})
        found = runner.run({"x": x})
        assert (found["s"], found["z"]) == (scale, zero_point)
        # a number halfway between two steps may go to the other one
        is_halfway = np.abs(np.abs(x / scale) % 1 - 0.5) < 1e-4
        np.testing.assert_array_equal(found["y"][~is_halfway], y[~is_halfway])


def test_openvino_still_misses_the_zero_point(tmp_path: Path) -> None:
    """If it does not, the operator needs no conversion of its own."""
    onnx.save(onnx.parser.parse_model(TEXT.replace("SHAPE", "n")), tmp_path / "model.onnx")
    compiled = openvino.compile_model(tmp_path / "model.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert any(compiled([x])[2] != 128 for x in SYMMETRIC)
