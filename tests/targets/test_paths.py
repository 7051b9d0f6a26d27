from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import onnx
import pytest

MODEL = onnx.parser.parse_model(
    '<ir_version: 9, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Abs(x) }'
)


@pytest.mark.parametrize("package", ["edgekit_coreml", "edgekit_openvino", "edgekit_onnxruntime"])
def test_python_calls_take_paths_as_texts(package: str, tmp_path: Path) -> None:
    api = importlib.import_module(package)
    file = str(tmp_path / "model.onnx")
    onnx.save(MODEL, file)
    x = np.array([-1, 2], np.float32)
    for model in (MODEL, file):
        made = api.convert(model, str(tmp_path / "out"))
        assert made.parent == tmp_path
        np.testing.assert_array_equal(api.load(str(made)).run({"x": x})["y"], [1, 2])
