"""Min and Max of operator set 7 with constants of one element, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest

import edgekit_openvino

X = np.random.default_rng(4).standard_normal((1, 3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("operator", ["Min", "Max"])
@pytest.mark.parametrize("operands", ["r, c", "c, r", "r, c, r"])
def test_they_are_loaded(operator: str, operands: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 3, opset_import: ["" : 7]>\ng (float[1, 3, 4, 5] x) => (float[1, 1, 1, 1] y)'
        f" <float[1, 1, 1, 1] c = {{0.3}}> {{ r = ReduceMax (x)  y = {operator} ({operands}) }}"
    )
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(RuntimeError, match="shapes are inconsistent"):  # else OpenVINO has learned it: drop the module
        openvino.Core().compile_model(tmp_path / "model.onnx", "CPU")

    found = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run({"x": X})

    right = (np.minimum if operator == "Min" else np.maximum)(X.max(), np.float32(0.3))
    np.testing.assert_array_equal(found["y"], right.reshape(1, 1, 1, 1))
