from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgekit_openvino
from edgekit.api import package
from edgekit.instruction_sets import WITHOUT_VNNI, own_set
from edgekit.model import Model
from edgekit.stages.load import Load
from edgekit_openvino.exact.rounding import with_rounding_written_out

RNG = np.random.default_rng(3)
WITH_VNNI = own_set() not in WITHOUT_VNNI
"""Whether OpenVINO has kernels here that quantize what it is fed."""
needs_vnni = pytest.mark.skipif(not WITH_VNNI, reason="this processor has no VNNI")


def saved(path: Path, nodes: list[Any], shape: list[int], constants: dict[str, np.ndarray], opset: int = 17) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def pair(name: str, x: str, scale: str, zero: str, **attributes: Any) -> list[onnx.NodeProto]:
    return [
        helper.make_node("QuantizeLinear", [x, scale, zero], [f"{name}_q"], name=f"{name}_quantize", **attributes),
        helper.make_node("DequantizeLinear", [f"{name}_q", scale, zero], [name], name=f"{name}_widen", **attributes),
    ]


def by_onnxruntime(path: Path, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def written_out(path: Path) -> Model:
    model = with_rounding_written_out(Load()(path).model)
    assert all(node.op_type != "QuantizeLinear" for node in model.graph.all_nodes())
    return model


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_ties_and_what_is_too_large(tmp_path: Path, dtype: type[np.integer]) -> None:
    constants = {"scale": np.float32(0.5), "zero": np.array(3, dtype)}
    path = saved(tmp_path / "m.onnx", pair("y", "x", "scale", "zero"), [1, 9], constants)
    x = np.array([[-500, -1.25, -0.75, -0.25, 0, 0.25, 0.75, 1.25, 500]], np.float32)
    out = tmp_path / "m.xml"
    edgekit_openvino.convert(written_out(path).proto(), out)
    found = edgekit_openvino.load(out).run({"x": x})["y"]
    np.testing.assert_array_equal(found, by_onnxruntime(path, x))
    assert not re.search('destination_type="[iu]8"', out.read_text()), "made integers, which are widened at once"


def test_sixteen_bits_of_onnx_runtimes_own_operators(tmp_path: Path) -> None:
    constants = {"scale": np.float32(0.001), "zero": np.array(30000, np.uint16)}
    path = saved(tmp_path / "m.onnx", pair("y", "x", "scale", "zero", domain="com.microsoft"), [1, 5], constants)
    x = np.array([[-500, -1.23449, 0, 12.3456, 500]], np.float32)
    out = tmp_path / "m.xml"
    edgekit_openvino.convert(written_out(path).proto(), out)
    found, a_hundredth_of_a_step = edgekit_openvino.load(out).run({"x": x})["y"], 1e-5
    np.testing.assert_allclose(found, by_onnxruntime(path, x), rtol=0, atol=a_hundredth_of_a_step)


def test_a_quantized_convolution_is_written_out_too(tmp_path: Path) -> None:
    before, after = pair("a", "x", "s", "z"), helper.make_node("DequantizeLinear", ["b", "r", "z"], ["y"])
    product = helper.make_node("QLinearConv", ["a_q", "s", "z", "w", "t", "z", "r", "z"], ["b"], name="product")
    constants = {"s": np.float32(0.0213), "t": np.float32(0.0317), "r": np.float32(0.0973), "z": np.uint8(120)}
    weights = {"w": RNG.integers(0, 256, (4, 3, 3, 3)).astype(np.uint8)}
    path = saved(tmp_path / "m.onnx", [before[0], product, after], [1, 3, 8, 8], {**constants, **weights})
    model = written_out(path)
    assert all(node.op_type != "QLinearConv" for node in model.graph)
    out, x = tmp_path / "m.xml", RNG.standard_normal((1, 3, 8, 8)).astype(np.float32)
    edgekit_openvino.convert(model.proto(), out)
    apart = np.abs(edgekit_openvino.load(out).run({"x": x})["y"] - by_onnxruntime(path, x))
    assert apart.max() <= 1.001 * constants["r"]


@pytest.mark.parametrize(
    ("clipped", "dtype", "high"),
    [
        (["Round", "Clip"], TensorProto.UINT8, 127),  # below zero integers wrap around
        (["Clip"], TensorProto.INT8, 127),  # integers are cut off
        (["Round", "Add", "Clip"], TensorProto.INT8, 127),
        (["Round", "Clip"], TensorProto.INT8, 99.5),
    ],
)
def test_integers_that_change_a_number_stay(tmp_path: Path, clipped: list[str], dtype: int, high: float) -> None:
    constants = {"low": np.float32(-128), "high": np.float32(high), "half": np.float32(0.5)}
    others = {"Clip": ["low", "high"], "Add": ["half"]}
    values = ["x", *(f"v{place}" for place in range(len(clipped)))]
    nodes = [
        helper.make_node(kind, [taken, *others.get(kind, [])], [made])
        for kind, taken, made in zip(clipped, values[:-1], values[1:], strict=True)
    ]
    nodes += [
        helper.make_node("Cast", [values[-1]], ["integers"], to=dtype),
        helper.make_node("Cast", ["integers"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Abs", ["floats"], ["y"]),
    ]
    out = tmp_path / "m.xml"
    edgekit_openvino.convert(saved(tmp_path / "m.onnx", nodes, [1, 4], constants), out)
    assert out.read_text().count('type="Convert"') == 2


def test_scales_along_an_axis(tmp_path: Path) -> None:
    constants = {"scale": np.array([0.5, 0.02, 0.125], np.float32), "zero": np.array([0, 7, -100], np.int8)}
    path = saved(tmp_path / "m.onnx", pair("y", "x", "scale", "zero", axis=1), [2, 3, 4], constants)
    x = (3 * RNG.standard_normal((2, 3, 4))).astype(np.float32)
    out = tmp_path / "m.xml"
    edgekit_openvino.convert(written_out(path).proto(), out)
    found = edgekit_openvino.load(out).run({"x": x})["y"]
    np.testing.assert_allclose(found, by_onnxruntime(path, x), rtol=1e-6)  # a step is 2 % or more


def test_a_model_that_quantizes_nothing_is_the_same(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [1, 4], {})
    model = Load()(path).model
    assert with_rounding_written_out(model) is model


def perceptron(path: Path) -> Path:
    """Two dense layers of one row, as TensorFlow Lite quantizes them."""
    constants = {
        "s0": np.float32(0.0168),
        "z0": np.array(10, np.int8),
        "w1": RNG.integers(-127, 128, (6, 8)).astype(np.int8),
        "sw1": RNG.uniform(0.003, 0.006, 8).astype(np.float32),
        "zw1": np.zeros(8, np.int8),
        "s1": np.float32(0.0069),
        "z1": np.array(-128, np.int8),
        "w2": RNG.integers(-127, 128, (8, 3)).astype(np.int8),
        "sw2": RNG.uniform(0.003, 0.006, 3).astype(np.float32),
        "zw2": np.zeros(3, np.int8),
        "s2": np.float32(0.0086),
        "z2": np.array(30, np.int8),
    }
    nodes = [
        *pair("a", "x", "s0", "z0"),
        helper.make_node("DequantizeLinear", ["w1", "sw1", "zw1"], ["f1"], axis=1),
        helper.make_node("MatMul", ["a", "f1"], ["m1"]),
        helper.make_node("Relu", ["m1"], ["r1"]),
        *pair("b", "r1", "s1", "z1"),
        helper.make_node("DequantizeLinear", ["w2", "sw2", "zw2"], ["f2"], axis=1),
        helper.make_node("MatMul", ["b", "f2"], ["m2"]),
        *pair("y", "m2", "s2", "z2"),
    ]
    return saved(path, nodes, [1, 6], constants)


def test_a_quantized_model_multiplies_integers(tmp_path: Path) -> None:
    """With VNNI OpenVINO's joined kernel of both layers is wrong: see ``edgekit_openvino.loadable.matrix_chains``."""
    path = perceptron(tmp_path / "m.onnx")
    bundle = package(path, "intel-cpu", tmp_path / "bundle")
    x = RNG.standard_normal((1, 6)).astype(np.float32)
    found = edgekit_openvino.load(tmp_path / "bundle" / "model.xml").run({"x": x})["y"]
    np.testing.assert_allclose(found, by_onnxruntime(path, x), rtol=0, atol=0.02)
    assert build_record(bundle)["rounding_written_out"] is False


def test_a_quantized_model_in_float32_has_its_rounding_written_out(tmp_path: Path) -> None:
    path = perceptron(tmp_path / "m.onnx")
    bundle = package(path, "intel-cpu", tmp_path / "bundle", precision="float32")
    x = RNG.standard_normal((1, 6)).astype(np.float32)
    found = edgekit_openvino.load(tmp_path / "bundle" / "model.xml").run({"x": x})["y"]
    np.testing.assert_allclose(found, by_onnxruntime(path, x), rtol=0, atol=1e-6)
    assert build_record(bundle)["rounding_written_out"] is True


def build_record(bundle: Any) -> dict[str, Any]:
    found = next(stage for stage in reversed(bundle.manifest["stages"]) if stage["name"] == "build")
    return dict(found["record"])


def stored_weights(path: Path) -> Path:
    """A product with weights that are stored in 8 bits and widened, as exporters of sentence encoders write them."""
    constants = {
        "w": RNG.integers(-127, 128, (256, 64)).astype(np.int8),
        "s": RNG.uniform(0.01, 0.02, (1, 64)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "s"], ["v"]),
        helper.make_node("MatMul", ["x", "v"], ["y"]),
    ]
    return saved(path, nodes, [16, 256], constants)


def decibels(wanted: np.ndarray, found: np.ndarray) -> float:
    return float(10 * np.log10(np.square(wanted).sum() / max(np.square(found - wanted).sum(), 1e-30)))


@needs_vnni
def test_openvino_still_quantizes_what_meets_stored_weights(tmp_path: Path) -> None:
    """What keeps a bundle of such a model from 50 dB; where this fails, OpenVINO computes in floats by itself."""
    path = stored_weights(tmp_path / "m.onnx")
    x = RNG.standard_normal((16, 256)).astype(np.float32)
    found = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({"x": x})["y"]
    assert decibels(by_onnxruntime(path, x), found) < 50


def test_what_is_converted_in_float32_computes_with_activations_as_they_are(tmp_path: Path) -> None:
    path = stored_weights(tmp_path / "m.onnx")
    edgekit_openvino.convert(path, tmp_path / "m.xml")
    x = RNG.standard_normal((16, 256)).astype(np.float32)
    assert decibels(by_onnxruntime(path, x), edgekit_openvino.load(tmp_path / "m.xml").run({"x": x})["y"]) > 90


def test_a_model_of_stored_weights_falls_back_to_activations_as_they_are(tmp_path: Path) -> None:
    path = stored_weights(tmp_path / "m.onnx")
    bundle = package(path, "intel-cpu", tmp_path / "bundle")
    x = RNG.standard_normal((16, 256)).astype(np.float32)
    found = edgekit_openvino.load(tmp_path / "bundle" / "model.xml").run({"x": x})["y"]
    assert decibels(by_onnxruntime(path, x), found) > 90
    build = next(stage for stage in reversed(bundle.manifest["stages"]) if stage["name"] == "build")
    assert build["record"]["activations_quantized_at_run_time"] is False
    compiled = openvino.Core().compile_model(tmp_path / "bundle" / "model.xml", "CPU")
    assert compiled.get_property("DYNAMIC_QUANTIZATION_GROUP_SIZE") == 0
