"""Values that nothing makes are refused by name; branches that return outer values return copies of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml
from edgekit.errors import InputError
from edgekit.execution.reference import Reference
from edgekit.graph.reading.values import check_values, pass_on_outer_values
from edgekit.stages.load import Load

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '
LOOP = (
    "g (float[2] x, int64 n, bool b) => (float[2] y) { y = Loop (n, b, x) <body = body (int64 i, bool c, float[2] s)"
    " => (bool c, float[2] t) { t = Add (s, %s) }> }"
)


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        ("g (float[2] x) => (float[2] y) { y = Add (x, w) }", r"node 'y' \(Add\) reads 'w', which is no input"),
        ("g (float[2] x) => (float[2] z) { y = Relu (x) }", "it returns 'z', which is no input"),
        (LOOP % "w", r"node 't' \(Add\) reads 'w', which is no input"),
    ],
)
def test_a_value_that_nothing_makes_is_told(graph: str, told: str, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(HEAD + graph)
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(InputError, match=told):
        Load()(tmp_path / "m.onnx")
    with pytest.raises(InputError, match=told):
        edgekit_coreml.convert(proto, tmp_path / "m")


def test_a_function_that_reads_what_nothing_makes_is_told() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "f" : 1]> g (float[2] x) => (float[2] y) { y = f.twice (x) }'
        ' <domain: "f", opset_import: ["" : 17]> twice (a) => (b) { b = Add (a, w) }'
    )
    with pytest.raises(InputError, match=r"node 'b' \(Add\) reads 'w', which nothing makes in the function 'twice'"):
        check_values(proto, None)


@pytest.mark.parametrize("graph", [LOOP % "x", "g (float[2] x) => (float[2] x) { y = Relu (x) }"])
def test_values_from_outside_and_inputs_that_are_returned_are_made(graph: str) -> None:
    check_values(onnx.parser.parse_model(HEAD + graph), None)


def branches_that_return(name: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"{HEAD} g (float[2] x, bool b) => (float[2] y) {{ twice = Add (x, x) y = If (b) <"
        f" then_branch = one () => (int64 {name}) {{ }}, else_branch = other () => (float[2] n) {{ n = Neg (x) }}> }}"
    )


def test_branches_that_return_outer_values_return_copies(tmp_path: Path) -> None:
    proto = branches_that_return("twice")
    with pytest.raises(Exception, match="outer scope value"):
        onnxruntime.InferenceSession(proto.SerializeToString())
    onnx.save(proto, tmp_path / "m.onnx")
    loaded = Load()(tmp_path / "m.onnx")
    assert "branches or bodies returned values that they do not make, 'twice'" in " ".join(loaded.warnings)
    x = np.array([1, -2], np.float32)
    for condition, expected in ((True, 2 * x), (False, -x)):
        found = Reference(loaded.model).run({"x": x, "b": np.array(condition)})
        np.testing.assert_array_equal(found["y"], expected)


def test_branches_that_make_what_they_return_stay() -> None:
    proto = onnx.parser.parse_model(HEAD + LOOP % "x")
    before = proto.SerializeToString()
    assert pass_on_outer_values(proto) == []
    assert proto.SerializeToString() == before
