"""Inputs that decide how large tensors are, on a device that has to know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import edgekit
from edgekit.errors import UnsupportedOpsError
from edgekit.reporting.summary import stage_record

OnnxFile = Callable[..., Path]
SCALED = """g (float[1, 1, 4, 4] x, float[1] k) => (float[1, 1, p, q] y) {
    scales = Concat <axis = 0> (ones, k, k) y = Resize <mode = "cubic", antialias = 1> (x, , scales)
}"""
NUMBERS = {"ones": np.ones(2, np.float32)}


def drawn(folder: Path, *scales: float) -> Path:
    folder.mkdir()
    for number, scale in enumerate(scales):
        x = np.random.default_rng(number).standard_normal((1, 1, 4, 4)).astype(np.float32)
        np.savez(folder / f"{number}.npz", x=x, k=np.array([scale], np.float32))
    return folder


def test_an_input_that_sizes_depend_on_gets_the_value_of_all_samples(tmp_path: Path, onnx_file: OnnxFile) -> None:
    model, data = onnx_file(SCALED, opset=18, **NUMBERS), drawn(tmp_path / "data", 2, 2, 2)
    bundle = edgekit.package(model, "ios18", tmp_path / "out", data=data, quantize="none", precision="float32")
    assert [feature.name for feature in bundle.inputs] == ["x"]
    assert stage_record(bundle.manifest, "fix values")["warnings"] == [
        "sizes inside depend on input 'k', and the device has to know them: it is fixed to [2.0], its value in all "
        "3 samples, and the built model does not have this input"
    ]
    for feeds, outputs in bundle.golden():
        original = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        (wanted,) = original.run(None, {**feeds, "k": np.array([2], np.float32)})
        np.testing.assert_allclose(outputs["y"], wanted, rtol=0, atol=1e-6)
    assert edgekit.verify(bundle, data=data, model=model).accuracy is not None


def test_a_device_that_takes_any_size_keeps_it(tmp_path: Path, onnx_file: OnnxFile) -> None:
    model, data = onnx_file(SCALED, opset=18, **NUMBERS), drawn(tmp_path / "data", 2, 2, 2)
    bundle = edgekit.package(model, "onnxruntime", tmp_path / "out", data=data, quantize="none")
    assert [feature.name for feature in bundle.inputs] == ["x", "k"]


def test_samples_with_several_values_leave_it_as_it_is(tmp_path: Path, onnx_file: OnnxFile) -> None:
    model, data = onnx_file(SCALED, opset=18, **NUMBERS), drawn(tmp_path / "data", 2, 3)
    with pytest.raises(UnsupportedOpsError, match="Resize"):
        edgekit.package(model, "ios18", tmp_path / "out", data=data, quantize="none")
