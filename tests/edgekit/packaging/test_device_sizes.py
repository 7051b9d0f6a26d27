"""Dimensions that nobody asked about, on a runtime that takes any size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgekit

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
