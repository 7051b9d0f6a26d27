from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.operators.measured import Cases, MeasuredTable

OnnxModel = Callable[..., onnx.ModelProto]

OPERATORS = {
    "Relu": {"by": "type:0", "of": {"FLOAT": [9, 10], "DOUBLE": [0, 4]}},
    "Add": {
        "by": "constants",
        "inputs": [0, 1],
        "of": {"--": {"by": "rank:0", "of": {"1": [0, 5], "2": [5, 5]}}, "-C": [3, 6]},
    },
    "Pad": {"by": "mode", "of": {"constant": [7, 7], "wrap": [0, 2]}},
    "Sub": {"by": "version", "of": {"7": [0, 3], "13": [3, 3]}},
    "MatMul": {"by": "rank:1", "of": {"1": [0, 9], "2": [9, 9]}},
    "Softmax": {"by": "axis", "of": {"-1": [4, 4], "0": [0, 4]}},
    "Clip": {"by": "constants", "inputs": [1, 2], "of": {"C.": [1, 1], "..": [0, 1]}},
}


@pytest.fixture
def table(tmp_path: Path) -> MeasuredTable:
    head = {"source": "a wheel", "version": "meter 1", "date": "2026-01-02", "measured": "a board"}
    file = tmp_path / "board.json"
    file.write_text(json.dumps({**head, "operators": OPERATORS}))
    return MeasuredTable.read(file)


@pytest.mark.parametrize(
    ("graph", "cases", "is_taken"),
    [
        ("g (float[3] x) => (float[3] y) { y = Relu (x) }", Cases(9, 10), True),
        ("g (double[3] x) => (double[3] y) { y = Relu (x) }", Cases(0, 4), False),
        ("g (float16[3] x) => (float16[3] y) { y = Relu (x) }", Cases(9, 14), None),
        ("g (float[2] x, float[2] z) => (float[2] y) { y = Add (x, z) }", Cases(0, 5), False),
        ("g (float[1, 2] x, float[2] z) => (float[1, 2] y) { y = Add (x, z) }", Cases(5, 5), True),
        ("g (float[1, 1, 2] x, float[2] z) => (float[1, 1, 2] y) { y = Add (x, z) }", Cases(5, 10), None),
        ("g (float[2] x) => (float[2] y) { y = Add (x, two) }", Cases(3, 6), None),
        ("g (float[2] x) => (float[4] y) { y = Pad (x, ones) }", Cases(7, 7), True),
        ('g (float[2] x) => (float[4] y) { y = Pad <mode = "wrap"> (x, ones) }', Cases(0, 2), False),
        ("g (float[2] x) => (float[2] y) { y = Clip (x, two) }", Cases(1, 1), True),
        ("g (float[2] x) => (float[2] y) { y = Sub (x, x) }", Cases(3, 3), True),
        ("g (float[2] x, float[2, 3] z) => (float[3] y) { y = MatMul (x, z) }", Cases(9, 9), True),
        ("g (float[2, 3] x) => (float[2, 3] y) { y = Softmax (x) }", Cases(4, 4), True),
        ("g (float[2, 3] x) => (float[2, 3] y) { y = Softmax <axis = 0> (x) }", Cases(0, 4), False),
        ("g (float[2, 3] x) => (float[2, 3] y) { y = Softmax <axis = 1> (x) }", Cases(4, 8), None),
        ("g (float[2] x) => (float[2] y) { y = Sin (x) }", None, None),
    ],
)
def test_a_node_is_like_the_cases_that_share_its_features(
    onnx_model: OnnxModel, table: MeasuredTable, graph: str, cases: Cases | None, is_taken: bool | None
) -> None:
    constants = {"two": np.array(2, np.float32), "ones": np.array([1, 1])}
    used = {name: array for name, array in constants.items() if name in graph}
    (node,) = ir.from_proto(onnx_model(graph, opset=19, **used)).graph
    found = table.cases_like(node, 19)
    assert found == cases
    assert found is None or found.is_taken is is_taken


def test_verdicts_tell_the_cases_and_who_measured_them(table: MeasuredTable) -> None:
    assert table.text_on(Cases(9, 10)) == "compiled in 9 of 10 cases like it, measured with a board (meter 1)"
