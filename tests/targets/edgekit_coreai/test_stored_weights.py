"""Weights that are stored small stay small in a Core AI model, and mean the same to Apple's runtime as to ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgekit_coreai
import edgekit_coreml
from edgekit_coreai.conversion import translate_package

RANDOM = np.random.default_rng(11)


def product(zeros: float = 0.0) -> onnx.ModelProto:
    weight = RANDOM.standard_normal((256, 192)).astype(np.float32)
    weight[RANDOM.random(weight.shape) < zeros] = 0
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 192])],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


@pytest.mark.parametrize(("scheme", "bits"), [("int4-weights", 4), ("palette4", 4), ("palette6", 6), ("palette8", 8)])
def test_weights_stay_small_and_mean_the_same(tmp_path: Path, scheme: str, bits: int) -> None:
    package = edgekit_coreml.convert(product(), tmp_path / "model", precision="float32", compression=scheme)
    model = translate_package(package, tmp_path / "model.aimodel")
    assert size(model) < 256 * 192 * bits / 8 * 1.1 + 8192
    feeds = {"x": RANDOM.standard_normal((4, 256)).astype(np.float32)}
    theirs, ours = edgekit_coreai.load(model).run(feeds)["y"], edgekit_coreml.load(package).run(feeds)["y"]
    np.testing.assert_allclose(theirs, ours, atol=1e-3)


@pytest.mark.parametrize("system", ["iOS17", "iOS18"])
def test_weights_that_are_mostly_zeros_are_a_mask_and_numbers(tmp_path: Path, system: str) -> None:
    model = product(zeros=0.9)
    package = edgekit_coreml.convert(model, tmp_path / "model", precision="float32", deployment_target=system)
    translated = translate_package(package, tmp_path / "model.aimodel")
    assert size(translated) < 256 * 192 * (1 / 8 + 0.11 * 4) + 8192
    x = RANDOM.standard_normal((4, 256)).astype(np.float32)
    expected = x @ numpy_helper.to_array(model.graph.initializer[0])
    np.testing.assert_allclose(edgekit_coreai.load(translated).run({"x": x})["y"], expected, atol=1e-4)


@pytest.mark.parametrize(("layer", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_weights_of_half_precision_are_stored_so(tmp_path: Path, layer: str, gates: int) -> None:
    """They are multiplied in float32, as Core ML multiplies them."""
    hidden, width = 128, 96
    weights = {
        "w": RANDOM.standard_normal((1, gates * hidden, width)).astype(np.float32) / 10,
        "r": RANDOM.standard_normal((1, gates * hidden, hidden)).astype(np.float32) / 10,
    }
    graph = helper.make_graph(
        [helper.make_node(layer, ["x", "w", "r"], ["y"], hidden_size=hidden)],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 1, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 1, 1, hidden])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    translated = edgekit_coreai.convert(model, tmp_path / "model", precision="float16")
    assert size(translated) < 2 * gates * hidden * (width + hidden) + 16384
    x = RANDOM.standard_normal((5, 1, width)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(edgekit_coreai.load(translated).run({"x": x})["y"], expected, atol=2e-3)
