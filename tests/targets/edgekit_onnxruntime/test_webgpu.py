"""Models for WebGPU are written without what its provider in the browser computes wrong; what stops it is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import edgekit
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit.target import Support
from edgekit_onnxruntime.target import ONNXRuntimeTarget
from edgekit_onnxruntime.webgpu import computed_right
from tests.targets.edgekit_onnxruntime.webgpu_cases import RIGHT, STOPPING, WRONG


def run(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["y"], {"x": x})[0])


@pytest.mark.parametrize("name", WRONG)
def test_what_is_computed_wrong_is_written_otherwise_and_computes_the_same(name: str) -> None:
    proto, shape = WRONG[name]
    written = ir.to_proto(computed_right(infer_shapes(Model(ir.from_proto(proto)))).graph_model)
    onnx.checker.check_model(written)
    assert [node.op_type for node in written.graph.node] != [node.op_type for node in proto.graph.node]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(run(written, x), run(proto, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_computed_right_stays(name: str) -> None:
    model = infer_shapes(Model(ir.from_proto(RIGHT[name])))
    assert computed_right(model) is model


@pytest.mark.parametrize(("proto", "said"), STOPPING.values(), ids=STOPPING)
def test_nodes_that_stop_a_session_are_unsupported(proto: onnx.ModelProto, said: str) -> None:
    target = ONNXRuntimeTarget()
    profile = next(profile for profile in target.profiles if profile.name == "web-webgpu")
    found = target.check(Model(ir.from_proto(proto)), profile)
    assert {verdict.support for verdict in found} == {Support.UNSUPPORTED}
    assert {verdict.detail for verdict in found} == {f"onnxruntime-web's build with WebGPU {said}"}
    assert {verdict.hint for verdict in found} == {"`--target web` runs it in the browser, by WebAssembly"}


def test_bundles_for_webgpu_hold_the_other_form_and_keep_open_sizes(tmp_path: Path) -> None:
    proto, _ = WRONG["6 channels"]
    onnx.save(proto, tmp_path / "model.onnx")
    open_sizes = {"h": "4..12", "w": "4..12"}
    bundle = edgekit.package(tmp_path / "model.onnx", "web-webgpu", tmp_path / "bundle", dims=open_sizes)
    written = onnx.load(bundle.path / "model.onnx")
    (kernel,) = (array for array in written.graph.initializer if len(array.dims) == 4)
    assert list(kernel.dims) == [4, 8, 3, 3]
    assert [size.dim_param for size in written.graph.input[0].type.tensor_type.shape.dim] == ["", "", "h", "w"]
