"""A vector that is stored in 8 bits and added ahead of a Reshape gets all axes where OpenVINO would end the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_openvino

FEEDS = {"x": np.linspace(-3, 3, 4 * 6, dtype=np.float32).reshape(1, 4, 6)}
COMPILE = "import sys, openvino; openvino.Core().compile_model(sys.argv[1], 'CPU')"
JOINS = ["Add (d, v)", "Add (v, d)", "Sub (d, v)", "Sub (v, d)", "Div (v, d)", "Add (d, u)"]
"""``u`` is the same numbers as unsigned integers."""


def model(join: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[1, 4, 6] x) => (float[1, 1, 4, 6] y)'
        " <float s = {0.05}, int8 z = {-127}, float t = {0.005}, int8 none = {0}, int64[1] front = {0},"
        " int8[6] stored = {40, -20, 7, 90, -66, 30}, uint8[6] unsigned = {140, 80, 107, 190, 34, 130},"
        " uint8 middle = {100}>"
        " { q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) v = DequantizeLinear (stored, t, none)"
        f" u = DequantizeLinear (unsigned, t, middle) j = {join} y = Unsqueeze (j, front) }}"
    )


@pytest.mark.parametrize("join", JOINS)
def test_it_is_as_in_onnx_runtime(join: str, tmp_path: Path) -> None:
    proto = model(join)
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, FEEDS)
    found = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "model")).run(FEEDS)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_openvino_still_ends_the_process(tmp_path: Path) -> None:
    onnx.save(model("Add (d, v)"), tmp_path / "plain.onnx")
    done = subprocess.run([sys.executable, "-c", COMPILE, tmp_path / "plain.onnx"], check=False, timeout=100)
    assert done.returncode < 0, "OpenVINO compiles it: give_stored_operands_all_axes is needed no more"
