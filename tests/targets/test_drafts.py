"""Drafts compute what ships, on as many threads as asked for, and leave out what only ships."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.model import Model
from edgekit.registry import find_profile
from edgekit.stages.quantize import Execute
from edgekit.target import BuildOptions

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4, 8, 8] x) => (float[1, 6, 8, 8] y) { c = Conv<pads = [1, 1, 1, 1]>(x, w) y = HardSwish(c) }"""


@pytest.fixture
def model() -> Model:
    rng = np.random.default_rng(7)
    proto = onnx.parser.parse_model(TEXT)
    weights = rng.normal(size=(6, 4, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return Model(ir.from_proto(onnx.shape_inference.infer_shapes(proto)))


@pytest.mark.parametrize("name", ["onnxruntime", "intel-cpu"])
def test_a_draft_computes_what_ships(name: str, model: Model, tmp_path: Path) -> None:
    target, profile = find_profile(name)
    shipped = target.load(target.build(model, profile, tmp_path, BuildOptions()).main, profile)
    x = {"x": np.random.default_rng(8).normal(size=(1, 4, 8, 8)).astype(np.float32)}

    draft = Execute(target, profile, BuildOptions(), threads=2)(model)

    np.testing.assert_allclose(draft.run(x)["y"], shipped.run(x)["y"], rtol=1e-5, atol=1e-5)
    assert [runner.executed_by.split(", ")[-1] for runner in draft.settings] == ["1 thread", "2 threads"]
    assert shipped.executed_by.endswith(", 1 thread")


def test_a_draft_of_onnx_runtime_is_one_file(model: Model, tmp_path: Path) -> None:
    target, profile = find_profile("onnxruntime")

    artifact = target.build(model, profile, tmp_path, BuildOptions(draft=True))

    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    assert not artifact.alternatives
