from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

RunEdgeKit = Callable[..., Any]


@pytest.fixture
def model(onnx_file: Callable[..., Path]) -> Path:
    graph = "g (float[N, 4, L] x) => (float[N, 4, L] y) { y = Add (x, b) }"
    return onnx_file(graph, b=np.ones((4, 1), np.float32))


def test_fix_json(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "fixed.onnx"
    finished = edgekit("fix", model, "--dim", "N=1", "-o", output, "--json")
    assert (finished.code, finished.err) == (0, "")
    assert finished.json == {
        "output": str(output),
        "sizes": {"N": 1},
        "open": {},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 4, "L"]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [1, 4, "L"]}],
        "still_dynamic": [{"input": "x", "axis": 2, "dimension": "L", "fix": "--dim L=SIZE"}],
        "folded_nodes": 0,
        "warnings": [],
    }
    written = onnx.load(output)
    onnx.checker.check_model(written, full_check=True)
    dims = written.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == [1, 4, "L"]


def test_fix_for_people(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    finished = edgekit("fix", model, "--dim", "N=1", "-o", tmp_path / "fixed.onnx")
    assert "x      float32   1×4×L" in finished.out
    assert finished.err.splitlines()[-2:] == [
        "still dynamic: input 'x', axis 2; --dim L=SIZE fixes it",
        f"wrote {tmp_path}/fixed.onnx",
    ]


def test_nothing_to_fix(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    finished = edgekit("fix", model, "-o", tmp_path / "fixed.onnx", "--quiet")
    assert finished.code == 2
    assert finished.err == (
        "error: edgekit fix: no size is given\nfound: x: float32 N×4×L\nhint: give --dim N=SIZE --dim L=SIZE\n"
    )


def test_a_wrong_option_leaves_nothing_behind(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    finished = edgekit("fix", model, "--dim", "M=1", "-o", tmp_path / "new" / "fixed.onnx", "--quiet")
    assert finished.code == 2
    assert finished.err == (
        "error: --dim M=1: no input has a dynamic dimension 'M'\nexpected: one of N, L\nfound: x: float32 N×4×L\n"
    )
    assert not (tmp_path / "new").exists()


def test_the_model_may_be_its_own_output(edgekit: RunEdgeKit, model: Path) -> None:
    assert edgekit("fix", model, "--shape", "x=1,4,9", "-o", model).code == 0
    assert onnx.load(model).graph.output[0].type.tensor_type.shape.dim[2].dim_value == 9


def test_an_output_that_cannot_be_written(edgekit: RunEdgeKit, model: Path) -> None:
    finished = edgekit("fix", model, "--dim", "N=1", "-o", "/proc/fixed.onnx", "--quiet")
    assert finished.code == 2
    assert finished.err.startswith("error: /proc/fixed.onnx: cannot be written: ")
    assert "\nhint: choose another place with -o, or make its folder writable\n" in finished.err


def test_a_full_disk(edgekit: RunEdgeKit, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save_on_a_full_disk(*_: object) -> None:
        with open("/dev/full", "wb") as full:  # noqa: PTH123 - the kernel's own full disk
            full.write(bytes(10_000_000))

    monkeypatch.setattr("edgekit.model.Model.save", save_on_a_full_disk)
    finished = edgekit("fix", model, "--dim", "N=1", "-o", tmp_path / "fixed.onnx", "--quiet")
    assert finished.code == 2
    first, found, hint = finished.err.splitlines()
    assert first == f"error: {tmp_path}/fixed.onnx: cannot be written: the disk is full"
    assert found.endswith(" bytes free")
    assert hint == "hint: free some space, or choose another place with -o"
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_a_file_of_another_kind_is_not_replaced(edgekit: RunEdgeKit, digits: Path, tmp_path: Path) -> None:
    project = tmp_path / "edgekit.toml"
    project.write_text("[budget]\n")
    finished = edgekit("fix", digits, "--dim", "batch=1", "-o", project, "-q")
    assert finished.code == 2
    assert finished.err.endswith(
        f"error: {project}: exists and is not an ONNX model\nhint: choose another name with -o, or remove it first\n"
    )
    assert project.read_text() == "[budget]\n"
    for name, older in (("model.onnx", b"version https://git-lfs.github.com/spec/v1"), ("model", digits.read_bytes())):
        (tmp_path / name).write_bytes(older)
        assert edgekit("fix", digits, "--dim", "batch=1", "-o", tmp_path / name).code == 0
