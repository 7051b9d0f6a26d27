"""Clips with a limit left out behind operators that OpenVINO does not know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

import edgekit_openvino
from edgekit.errors import UnsupportedOpsError
from edgekit.model import Model
from edgekit_openvino.loadable.untyped_limits import without_missing_limits

READ = "import sys, openvino; openvino.Core().read_model(sys.argv[1])"


def clipped(limits: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18, "own" : 1]> g (float[3] x, float a, float b) => (float[3] z) {{
            y = own.Unknown (x) z = Clip (y{limits}) }}"""
    )


@pytest.mark.parametrize("limits", ["", ", a", ",, b", ", a, b"])
def test_the_unknown_operator_is_refused_by_name(limits: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOpsError, match=r"own.Unknown \(node 'y'\).*has no conversion") as refused:
        edgekit_openvino.convert(clipped(limits), tmp_path / "model")
    assert refused.value.ops == ["own.Unknown"]


@pytest.mark.parametrize(
    ("limits", "kind", "read"),
    [("", "Identity", ["y"]), (", a", "Max", ["y", "a"]), (",, b", "Min", ["y", "b"]), (", a, b", "Clip", list("yab"))],
)
def test_what_computes_the_same_stands_in_its_place(limits: str, kind: str, read: list[str]) -> None:
    node = without_missing_limits(Model(ir.from_proto(clipped(limits)))).graph[-1]
    assert (node.op_type, [value.name for value in node.inputs if value is not None]) == (kind, read)
    assert node.outputs[0].is_graph_output()


def test_a_clip_of_typed_values_stays() -> None:
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[3] x, float a) => (float[3] z) { z = Clip (x, a) }'
    model = Model(ir.from_proto(onnx.parser.parse_model(text)))
    assert without_missing_limits(model) is model


def test_openvino_still_ends_the_process(tmp_path: Path) -> None:
    """If it does not, the module has no purpose."""
    onnx.save(clipped(""), tmp_path / "model.onnx")
    ended = subprocess.run([sys.executable, "-c", READ, str(tmp_path / "model.onnx")], capture_output=True, check=False)
    assert ended.returncode < 0
