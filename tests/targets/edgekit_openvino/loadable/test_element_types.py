from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import edgekit_openvino
from edgekit.errors import UnsupportedOpsError


@pytest.mark.parametrize(
    ("body", "nodes", "told"),
    [
        ("(bfloat16[2] x) => (bfloat16[2] y) { h = Relu(x) y = Relu(h) }", ["h", "y"], "bfloat16"),
        ("(float[2] x) => (float8e4m3fn[2] y) { y = Cast <to = 17> (x) }", ["y"], "float8e4m3fn"),
        ("(float[4] x) => (seq(float[2]) y) { y = SplitToSequence(x) }", ["y"], "no tensor"),
    ],
)
def test_borders_that_cannot_be_exchanged_are_told(body: str, nodes: list[str], told: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22]> g {body}')
    with pytest.raises(UnsupportedOpsError, match=told) as caught:
        edgekit_openvino.convert(model, tmp_path / "model")
    assert sorted({gap.node for gap in caught.value.gaps}) == nodes


def test_types_inside_that_openvino_does_not_know_are_told(tmp_path: Path) -> None:
    body = "(float[2] x) => (float[2] y) { [there] h = Cast <to = 18> (x) [back] y = Cast <to = 1> (h) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22]> g {body}')
    with pytest.raises(UnsupportedOpsError) as caught:
        edgekit_openvino.convert(model, tmp_path / "model")
    assert {gap.op_type for gap in caught.value.gaps} == {"Cast"}


def test_a_type_inside_that_openvino_knows_is_taken(tmp_path: Path) -> None:
    body = "(float[2] x) => (float[2] y) { h = Cast <to = 16> (x) y = Cast <to = 1> (h) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 22]> g {body}')
    assert edgekit_openvino.convert(model, tmp_path / "model").is_file()
