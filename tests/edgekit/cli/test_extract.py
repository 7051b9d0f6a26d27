from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

RunEdgeKit = Callable[..., Any]


@pytest.fixture
def model(onnx_file: Callable[..., Path]) -> Path:
    return onnx_file("g (float[1, 4] x) => (float[1, 4] y) { a = Relu (x) b = Neg (a) y = Exp (b) }")


def test_extract_json(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "part.onnx"
    finished = edgekit("extract", model, "--inputs", "a", "--outputs", "b", "-o", output, "--json")
    assert (finished.code, finished.err) == (0, "")
    assert finished.json == {
        "output": str(output),
        "nodes": 1,
        "nodes_before": 3,
        "inputs": [{"name": "a", "dtype": "float32", "shape": [1, 4]}],
        "outputs": [{"name": "b", "dtype": "float32", "shape": [1, 4]}],
        "warnings": [],
    }
    onnx.checker.check_model(str(output), full_check=True)
    a = np.float32([[1, 2, 3, 4]])
    np.testing.assert_array_equal(ReferenceEvaluator(str(output)).run(None, {"a": a})[0], -a)


def test_extract_for_people(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    finished = edgekit("extract", model, "--outputs", "b", "-o", tmp_path / "part.onnx")
    assert [" ".join(line.split()) for line in finished.out.splitlines()][3:5] == [
        "input x float32 1×4",
        "output b float32 1×4",
    ]
    assert finished.err.endswith(f"wrote {tmp_path}/part.onnx\n")


def test_an_unknown_name(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    finished = edgekit("extract", model, "--outputs", "features", "-o", tmp_path / "part.onnx", "--quiet")
    assert finished.code == 2
    assert finished.err == (
        "error: --outputs: there is no value or node 'features'\n"
        "expected: one of y, b, a, x\n"
        "hint: `edgekit inspect` shows inputs and outputs; a viewer such as Netron shows what lies between\n"
    )
    assert not (tmp_path / "part.onnx").exists()


def test_the_model_is_not_overwritten_by_a_part_of_it(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    (tmp_path / "link.onnx").symlink_to(model)
    for output in (model, tmp_path / "link.onnx"):
        finished = edgekit("extract", model, "--outputs", "b", "-o", output, "--quiet")
        assert finished.code == 2
        assert (
            finished.err == f"error: -o {output}: is the model itself, which would be lost\nhint: name another file\n"
        )
    assert model.read_bytes() == before
