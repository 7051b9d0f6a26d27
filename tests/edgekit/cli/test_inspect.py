from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RunEdgeKit = Callable[..., Any]

CONV = """g (float[N, 3, H, 8] image) => (float[N, 4, P, 6] features) {
    c = Conv (image, w)
    features = Relu (c)
}"""


@pytest.fixture
def conv(onnx_file: Callable[..., Path]) -> Path:
    return onnx_file(CONV, w=np.zeros((4, 3, 3, 3), np.float32))


def test_inspect_json(edgekit: RunEdgeKit, conv: Path) -> None:
    finished = edgekit("inspect", conv, "--json")
    assert (finished.code, finished.err) == (0, "")
    assert finished.json == {
        "file": "model.onnx",
        "bytes": conv.stat().st_size,
        "sha256": hashlib.sha256(conv.read_bytes()).hexdigest(),
        "producer": "",
        "opset": 17,
        "upgraded_from_opset": None,
        "inputs": [{"name": "image", "dtype": "float32", "shape": ["N", 3, "H", 8]}],
        "outputs": [{"name": "features", "dtype": "float32", "shape": ["N", 4, "P", 6]}],
        "dynamic_dimensions": [
            {"input": "image", "axis": 0, "dimension": "N", "fix": "--dim N=SIZE"},
            {"input": "image", "axis": 2, "dimension": "H", "fix": "--dim H=SIZE"},
        ],
        "nodes": 2,
        "operators": {"Conv": 1, "Relu": 1},
        "parameters": 4 * 3 * 3 * 3,
        "weight_bytes": 4 * 3 * 3 * 3 * 4,
        "macs": None,
        "uncounted_nodes": ["c"],
        "metadata": {},
        "warnings": [],
    }


def test_macs_at_a_given_size(edgekit: RunEdgeKit, conv: Path) -> None:
    record = edgekit("inspect", conv, "--dim", "N=1", "--dim", "H=8", "--json").json
    assert record["macs"] == 4 * 6 * 6 * 3 * 3 * 3
    assert record["outputs"][0]["shape"] == [1, 4, 6, 6]
    assert record["dynamic_dimensions"] == []


def test_inspect_for_people(edgekit: RunEdgeKit, conv: Path) -> None:
    out = edgekit("inspect", conv, "--quiet").out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "parameters 108 in 432 bytes" in lines
    assert "operators opset 17, 2 nodes" in lines
    assert "MACs unknown: 1 node without fixed shapes" in lines
    assert "input image float32 N×3×H×8" in lines
    assert "output features float32 N×4×P×6" in lines
    assert "N image 0 --dim N=SIZE" in lines
    assert "Conv 1" in lines


def test_progress_goes_to_stderr_and_quiet_silences_it(edgekit: RunEdgeKit, conv: Path) -> None:
    assert edgekit("inspect", conv).err.startswith("load\nload: ")
    assert edgekit("inspect", conv, "--quiet").err == ""


def test_an_upgraded_model_says_so(edgekit: RunEdgeKit, onnx_file: Callable[..., Path]) -> None:
    path = onnx_file("g (float[1, 4] x) => (float[1, 4] y) { y = Relu (x) }", opset=8)
    lines = [line.rstrip() for line in edgekit("inspect", path).out.splitlines()]
    assert "operators   opset 17 (upgraded from 8), 1 node" in lines


def test_a_model_that_was_moved_to_an_older_opset_says_so(edgekit: RunEdgeKit, onnx_file: Callable[..., Path]) -> None:
    """ONNX Runtime has no kernel for Swish, and replaces it by its definition in opset 24 alone."""
    path = onnx_file("g (float[1, 4] x) => (float[1, 4] y) { y = Swish (x) }", opset=25)
    lines = [line.rstrip() for line in edgekit("inspect", path).out.splitlines()]
    assert "operators   opset 24 (lowered from 25), 1 node" in lines


def test_a_broken_model_is_exit_code_1(edgekit: RunEdgeKit, onnx_file: Callable[..., Path]) -> None:
    path = onnx_file(CONV, w=np.full((4, 3, 3, 3), np.nan, np.float32))
    finished = edgekit("inspect", path)
    assert (finished.code, finished.out) == (1, "")
    assert "error: " in finished.err
