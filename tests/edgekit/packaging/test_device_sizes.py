"""Dimensions that nobody asked about, on a runtime that takes any size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgekit
from edgekit.bundle import read_bundle
from edgekit.cli import main
from edgekit.reporting.summary import warnings

GRAPH = """f (float[variants, 3, 1] x) => (float[3] y)
{{ rows = {} y = ReduceMean <axes = [0], keepdims = 0> (rows) }}"""


@pytest.mark.parametrize(
    ("operator", "first"),
    [
        pytest.param("Squeeze (x)", 4, id="OpenVINO squeezes no dimension that it does not know"),
        pytest.param("Reshape (x, flat)", "variants", id="OpenVINO takes any size"),
    ],
)
def test_openvino_gets_the_sizes_of_samples_where_it_lacks_operators_without(
    onnx_file: Callable[..., Path], tmp_path: Path, operator: str, first: int | str
) -> None:
    model = onnx_file(GRAPH.format(operator), flat=np.array([-1, 3]), opset=12)
    data = tmp_path / "data"
    data.mkdir()
    for number in range(3):
        values = np.random.default_rng(number).standard_normal((4, 3, 1), np.float32)
        np.savez(data / f"{number}.npz", x=values)
    bundle = edgekit.package(model, "intel-cpu", tmp_path / "out", data=data, quantize="none")
    (x,) = bundle.manifest["inputs"]
    assert x["shape"] == [first, 3, 1]


def test_openvino_gets_the_sizes_of_samples_where_it_cannot_load_the_model_without(
    onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    """It infers no rank behind a Reshape of unknown rank, and its plugin loads no output without one."""
    model = onnx_file("g (float[n] x, int64[r] s) => (float[a, b] y) { y = Reshape (x, s) }")
    data = tmp_path / "data"
    data.mkdir()
    for number in range(3):
        x = np.random.default_rng(number).standard_normal(6 + 2 * number, np.float32)
        np.savez(data / f"{number}.npz", x=x, s=np.array([2, 3 + number]))
    bundle = edgekit.package(model, "intel-cpu", tmp_path / "out", data=data, quantize="none")
    assert [feature.shape for feature in bundle.inputs] == [("n",), (2,)]
    for feeds, outputs in bundle.golden():
        np.testing.assert_array_equal(outputs["y"], feeds["x"].reshape(2, -1))


def test_what_shapes_are_fixed_to_twice_is_told_once(
    onnx_file: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """OpenVINO squeezes no dimension of unknown size: shapes are fixed once more, to the sizes of the samples."""
    graph = """f (float[batch, 3] x, float[variants, 3, 1] v) => (float[batch, 3] y)
    { rows = Squeeze (v) mean = ReduceMean <axes = [0], keepdims = 0> (rows) y = Add (x, mean) }"""
    model = onnx_file(graph, opset=12)
    (tmp_path / "data").mkdir()
    for number in range(3):
        rng = np.random.default_rng(number)
        v, x = rng.standard_normal((4, 3, 1), np.float32), rng.standard_normal((1, 3), np.float32)
        np.savez(tmp_path / "data" / f"{number}.npz", x=x, v=v)
    order = ["package", str(model), "--target", "intel-cpu", "--data", str(tmp_path / "data"), "--quantize", "none"]
    assert main([*order, "-o", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().err
    assert [line for line in told.splitlines() if line == "fix shapes"] == ["fix shapes"] * 2
    assert told.count("dimension 0 (batch) of input 'x' is 1, one sample") == 1
    texts = warnings(read_bundle(tmp_path / "out").manifest)
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize("target", ["onnxruntime", "intel-npu"])
def test_a_model_that_takes_no_drawn_integers_is_compared_with_those_of_a_sample(
    onnx_file: Callable[..., Path], tmp_path: Path, target: str
) -> None:
    """Where notes begin follows from how long they are; an NPU holds one size, which the first sample does not have."""
    model = onnx_file(
        "g (float[4] x, int64[N] lengths) => (float[N] y) "
        "{ zero = Constant <value_int = 0> () last = Constant <value_int = 24> () "
        "ends = CumSum (lengths, zero) places = Sub (last, ends) y = Gather (x, places) }"
    )
    data = tmp_path / "data"
    data.mkdir()
    for number, lengths in enumerate([[21, 2], [21, 1, 2], [22, 1, 1]]):
        x = np.random.default_rng(number).standard_normal(4, np.float32)
        np.savez(data / f"{number}.npz", x=x, lengths=np.array(lengths))
    bundle = edgekit.package(model, target, tmp_path / "out", data=data, quantize="none")
    assert not [text for text in warnings(bundle.manifest) if "compared" in text]
    for feeds, outputs in bundle.golden():
        np.testing.assert_array_equal(outputs["y"], feeds["x"][24 - np.cumsum(feeds["lengths"])])
