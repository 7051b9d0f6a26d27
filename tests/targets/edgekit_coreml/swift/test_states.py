"""The package of a model with states runs the steps of a sequence, each with the state that the one before it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

from edgekit.bundle import read_bundle
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress

if TYPE_CHECKING:
    from .conftest import Swift

pytestmark = [pytest.mark.slow, pytest.mark.swift, pytest.mark.xdist_group("swift")]


def test_golden_samples_are_the_steps_of_one_sequence(swift: Swift, tmp_path: Path) -> None:
    """The model gives -x and how often it has run before; the stub, which counts runs in its state, does the same."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 2] x, float[1, 2] h) => (float[1, 2] y, float[1, 2] n)'
        " <float[1] one = {1}> { m = Neg(x) y = Add(m, h) n = Add(h, one) }"
    )
    onnx.save(model, tmp_path / "model.onnx")
    request = PackageRequest(tmp_path / "model.onnx", "ios18", tmp_path / "bundle", states={"h": "n"})
    opened = read_bundle(package(request, Progress()).path)
    for step, (inputs, outputs) in enumerate(opened.golden()):
        np.testing.assert_allclose(outputs["y"], step - inputs["x"], rtol=1e-3)

    stub = swift.stubbed(opened.path, [feature.native_name for feature in opened.outputs])
    stub.passes("StateTests", "GoldenCheckTests", EDGEKIT_RESULTS=swift.path(stub.folder))
    results = json.loads((stub.folder / f"{opened.name}.results.json").read_text())
    assert len(results["samples"]) == opened.manifest["golden"]["samples"] > 1
