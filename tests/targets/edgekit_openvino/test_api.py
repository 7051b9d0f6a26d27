"""The package's functions for use without the pipeline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_openvino

FUNCTIONS = """<ir_version: 9, opset_import: ["" : 18, "own" : 1]> g (float[2, 3] x) => (float[2, 3] y) {
  y = own.outer (x) }
<domain: "own", opset_import: ["" : 18]> inner (a) => (b) { b = Tanh (a) }
<domain: "own", opset_import: ["" : 18, "own" : 1]> outer (a) => (b) { h = own.inner (a) b = Add (h, h) }
"""


@pytest.mark.parametrize("is_file", [False, True], ids=["model", "file"])
def test_functions_of_the_model_are_converted(is_file: bool, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(FUNCTIONS)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    runner = edgekit_openvino.load(edgekit_openvino.convert(path if is_file else model, tmp_path / "model"))
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(runner.run({"x": x})["y"], 2 * np.tanh(x), atol=1e-6)
    assert len(model.functions) == 2


def test_nodes_that_stand_behind_their_readers_are_converted(tmp_path: Path) -> None:
    """onnxconverter-common writes the Casts of a half-precision model's inputs behind all other nodes."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2, 3] x) => (float[2, 3] y) {'
        " b = Relu (h) y = Cast <to = 1> (b) h = Cast <to = 10> (x) }"
    )
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(runner.run({"x": x})["y"], np.maximum(x, 0), atol=1e-3)
    assert [node.op_type for node in model.graph.node] == ["Relu", "Cast", "Cast"]


def test_quick_gelu_of_half_precision_is_converted(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>'
        " g (float16[2, 5] x) => (float16[2, 5] y) { y = com.microsoft.QuickGelu (x) }"
    )
    x = np.linspace(-2, 2, 10).astype(np.float16).reshape(2, 5)
    wide = x.astype(np.float64)
    found = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run({"x": x})["y"]
    np.testing.assert_allclose(found, wide / (1 + np.exp(-1.702 * wide)), atol=2e-3)
