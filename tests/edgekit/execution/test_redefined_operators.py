"""Functions of a model with the names of ONNX Runtime's operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml
import edgekit_onnxruntime
import edgekit_openvino
from edgekit.stages.load import Load

X = np.float32([-1, 2, 3])
DOUBLED = "b = Add (a, a)"
GATED = "k = Constant <value = float {1.702}> ()  c = Mul (a, k)  d = Sigmoid (c)  b = Mul (a, d)"


def model(definition: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]>'
        " g (float[3] x) => (float[3] y) { y = com.microsoft.QuickGelu (x) }"
        f' <domain: "com.microsoft", opset_import: ["" : 18]> QuickGelu (a) => (b) {{ {definition} }}'
    )


def test_onnx_runtime_still_executes_its_operator() -> None:
    session = onnxruntime.InferenceSession(model(DOUBLED).SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.abs(session.run(None, {"x": X})[0] - 2 * X).max() > 0.1


@pytest.mark.parametrize(("definition", "is_told"), [(DOUBLED, True), (GATED, False)])
def test_a_warning_tells_where_it_computes_something_else(definition: str, is_told: bool, tmp_path: Path) -> None:
    onnx.save(model(definition), tmp_path / "m.onnx")
    warnings = Load()(tmp_path / "m.onnx").record["warnings"]
    told = [text for text in warnings if "EdgeKit takes the functions" in text]
    assert len(told) == is_told
    assert all("names of the model's functions (QuickGelu)" in text for text in told)


@pytest.mark.parametrize(
    ("target", "options"),
    [(edgekit_coreml, {"precision": "float32"}), (edgekit_openvino, {}), (edgekit_onnxruntime, {})],
)
def test_every_target_takes_the_function(target, options: dict, tmp_path: Path) -> None:
    runner = target.load(target.convert(model(DOUBLED), tmp_path / "m", **options))
    np.testing.assert_array_equal(runner.run({"x": X})["y"], 2 * X)
