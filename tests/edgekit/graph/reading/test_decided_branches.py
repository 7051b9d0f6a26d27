"""Ifs with a constant condition, against numbers by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from edgekit.execution.reference import Reference
from edgekit.graph.reading.decided_branches import take_decided_branches
from edgekit.stages.load import Load

X = np.array([[1, -2], [3, 4]], np.float32)
BRANCHES = """
<ir_version: 8, opset_import: ["": 17]>
g ({inputs}float[2, 2] x) => (float[t] y, float[2, 2] z)
<bool[1] yes = {{1}}, int64[1] flat = {{-1}}> {{
    no = Constant <value = bool {{0}}> ()
    a = If ({first}) <
        then_branch = thens () => (t) {{ half = Constant <value_float = 0.5> () t = Mul(x, half) }},
        else_branch = elses () => (e) {{ e = Reshape(x, flat) }}
    >
    b = If ({second}) <
        then_branch = thens2 () => (t) {{ half = Constant <value_float = 2.0> () t = Mul(x, half) }},
        else_branch = elses2 () => (e) {{ e = Identity(x) }}
    >
    y = Identity(a)
    z = Abs(b)
}}
"""


def model_of(first: str, second: str, inputs: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(BRANCHES.format(first=first, second=second, inputs=inputs))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("no", "yes", ([1, -2, 3, 4], [[2, 4], [6, 8]])),
        ("yes", "yes", ([[0.5, -1], [1.5, 2]], [[2, 4], [6, 8]])),  # two branches with the same names
    ],
)
def test_the_branch_that_is_taken_stays(
    first: str, second: str, expected: tuple[object, object], tmp_path: Path
) -> None:
    onnx.save(model_of(first, second), tmp_path / "m.onnx")
    model = Load()(tmp_path / "m.onnx").model
    assert not [node for node in model.graph.all_nodes() if node.op_type == "If"]
    found = Reference(model).run({"x": X})
    for name, array in zip(("y", "z"), expected, strict=True):
        np.testing.assert_array_equal(found[name], array)


def test_what_an_input_decides_stays_undecided() -> None:
    graph_model = ir.from_proto(model_of("c", "no", inputs="bool c, "))
    assert take_decided_branches(graph_model) == 1
    assert [node.op_type for node in graph_model.graph].count("If") == 1


def test_a_branch_in_a_branch(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    g (bool c, float[2, 2] x) => (float[2, 2] y) {
        y = If (c) <
            then_branch = outer () => (o) {
                yes = Constant <value = bool {1}> ()
                o = If (yes) <
                    then_branch = inner () => (i) { i = Neg(x) },
                    else_branch = other () => (k) { k = Abs(x) }
                >
            },
            else_branch = plain () => (p) { p = Exp(x) }
        >
    }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    model = Load()(tmp_path / "m.onnx").model
    assert [node.op_type for node in model.graph.all_nodes()].count("If") == 1
    np.testing.assert_array_equal(Reference(model).run({"c": np.array(True), "x": X})["y"], -X)
