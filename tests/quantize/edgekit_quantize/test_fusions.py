"""What the targets' placement data promise, seen in the graphs that the runtimes make of what is written."""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.statistics import Calibration, calibrate
from edgekit_quantize.graph.layers import layers
from edgekit_quantize.placement import place
from edgekit_quantize.prepare import prepared
from edgekit_quantize.prepare.gemms import split_gemms
from edgekit_quantize.settings import Placement, Settings
from edgekit_quantize.smoothing.per_channel import by_channel, channel_scales
from edgekit_quantize.writing.candidate import write

CNN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 8, 16, 16] x) => (float[1, 16, 16, 16] y) {
  c = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)
  r = Relu(c)
  d = Conv(r, w2, b2)
  s = Relu(d)
  y = Conv(s, w3, b3)
}"""
TRANSFORMER = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 16, 32] x) => (float[1, 16, 32] y) {
  m = MatMul(x, w1)
  a = Add(m, b1)
  r = Relu(a)
  n = MatMul(r, w2)
  y = Add(b2, n)
}"""

SEPARABLE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 8, 16, 16] x) => (float[1, 16, 8, 8] y) {
  c = Conv(x, w1)
  h = HardSwish(c)
  d = Conv<group = 16, pads = [1, 1, 1, 1], strides = [2, 2]>(h, w2)
  s = HardSwish(d)
  y = Conv(s, w3)
}"""
RESIDUAL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 8, 16, 16] x) => (float[1, 8, 16, 16] y) {
  c = Conv(x, w1)
  r = Relu(c)
  d = Conv(r, w2)
  a = Add(d, r)
  s = Relu(a)
  e = Conv(s, w3)
  b = Add(e, s)
  t = Relu(b)
  y = Conv(t, w4)
}"""
ATTENTION = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4, 16, 32] x) => (float[1, 4, 16, 32] y) <float scale = {0.2}> {
  q = MatMul(x, wq)
  k = MatMul(x, wk)
  v = MatMul(x, wv)
  t = Transpose<perm = [0, 1, 3, 2]>(k)
  p = MatMul(q, t)
  m = Mul(p, scale)
  s = Softmax(m)
  y = MatMul(s, v)
}"""


@pytest.fixture
def cnn(parse: Callable[..., ir.Model], rng: np.random.Generator) -> ir.Model:
    shapes = {"w1": (16, 8, 3, 3), "w2": (16, 16, 1, 1), "w3": (16, 16, 1, 1), "b1": (16,), "b2": (16,), "b3": (16,)}
    return prepared(parse(CNN, **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}))


@pytest.fixture
def transformer(parse: Callable[..., ir.Model], rng: np.random.Generator) -> ir.Model:
    shapes = {"w1": (32, 64), "b1": (64,), "w2": (64, 32), "b2": (32,)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return prepared(parse(TRANSFORMER, **arrays))


def _placement(target: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(importlib.resources.files(target).joinpath("placement.json").read_text())
    return data["default"]


def _calibrated(model: ir.Model, settings: Settings, rng: np.random.Generator) -> Calibration:
    wanted: dict[str, set[int]] = {name: set() for name in place(model.graph, settings).observed()}
    for layer in layers(model.graph):
        wanted.setdefault(layer.data.name or "", set()).add(layer.input_axis)
    shape = [int(dim) for dim in model.graph.inputs[0].shape or ()]
    feeds = [({"x": rng.normal(size=shape).astype(np.float32)}, None) for _ in range(4)]
    scales = {
        name: functools.partial(channel_scales, readers=readers, preparation=settings.preparation)
        for name, readers in by_channel([place(model.graph, settings)]).items()
    }
    return calibrate(model, wanted, feeds, len(feeds), by_channel=scales)


def _optimized(model: ir.Model, folder: Path) -> Counter[str]:
    """Operators of the graph that ONNX Runtime executes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 4
    message = ir.to_proto(model).SerializeToString()
    onnxruntime.InferenceSession(message, options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node)


def _executed(model: ir.Model, folder: Path) -> list[Any]:
    """What OpenVINO's CPU plugin tells of the nodes that it executes."""
    import openvino

    ir.save(model, folder / "model.onnx")
    compiled = openvino.Core().compile_model(
        folder / "model.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    )
    return [node.get_rt_info() for node in compiled.get_runtime_model().get_ordered_ops()]


def _compiled(model: ir.Model, folder: Path) -> Counter[tuple[str, str]]:
    """Layer types and precisions of the graph that OpenVINO's CPU plugin executes."""
    infos = _executed(model, folder)
    return Counter((info["layerType"].astype(str), info["runtimePrecision"].astype(str)) for info in infos)


def _fused_layers(model: ir.Model, folder: Path) -> list[str]:
    """For each node that OpenVINO executes, the layers of the model that it computes."""
    return [info["originalLayersNames"].astype(str) for info in _executed(model, folder)]


def test_onnxruntime_multiplies_matrices_of_integers(
    transformer: ir.Model, rng: np.random.Generator, tmp_path: Path
) -> None:
    settings = Placement.read(_placement("edgekit_onnxruntime")).candidates["integer matrix products"]

    written = write(transformer, settings, _calibrated(transformer, settings, rng).tensors)

    operators = _optimized(written.model, tmp_path)
    assert operators["MatMulIntegerToFloat"] == 2
    assert not {"MatMul", "Gemm", "DequantizeLinear"} & operators.keys()


@pytest.mark.parametrize(
    "body",
    [
        "m = MatMul(x, w1) a = Add(m, b1) r = Relu(a) n = MatMul(r, w2) y = Add(b2, n)",
        "a = Gemm<transB = 1>(x, v1, b1) r = Relu(a) y = Gemm(r, w2, b2)",
    ],
    ids=["a dense layer of Keras", "a linear layer of PyTorch"],
)
def test_onnxruntime_multiplies_integers_in_dense_layers(
    parse: Callable[..., ir.Model], rng: np.random.Generator, tmp_path: Path, body: str
) -> None:
    shapes = {"w1": (32, 64), "v1": (64, 32), "b1": (64,), "w2": (64, 32), "b2": (32,)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items() if f"{name}" in body}
    head = '<ir_version: 8, opset_import: ["" : 17]>\ng (float[4, 32] x) => (float[4, 32] y) '
    model = prepared(parse(f"{head}{{ {body} }}", **arrays))
    split_gemms(model)
    for settings in list(Placement.read(_placement("edgekit_onnxruntime")).candidates.values())[:2]:
        written = write(model, settings, _calibrated(model, settings, rng).tensors)

        operators = _optimized(written.model, tmp_path)
        assert operators["MatMulIntegerToFloat"] == 2
        assert not {"MatMul", "Gemm", "DequantizeLinear"} & operators.keys()


def test_onnxruntime_convolves_integers(cnn: ir.Model, rng: np.random.Generator, tmp_path: Path) -> None:
    settings = Placement.read(_placement("edgekit_onnxruntime")).candidates["integer convolutions and matrix products"]

    written = write(cnn, settings, _calibrated(cnn, settings, rng).tensors)

    assert _optimized(written.model, tmp_path)["QLinearConv"] == 2  # the last one's output is the graph's


def test_onnxruntime_adds_integers_of_residual_blocks(
    parse: Callable[..., ir.Model], rng: np.random.Generator, tmp_path: Path
) -> None:
    arrays = {name: rng.normal(size=(8, 8, 1, 1)).astype(np.float32) for name in ("w1", "w2", "w3", "w4")}
    model = prepared(parse(RESIDUAL, **arrays))
    settings = Placement.read(_placement("edgekit_onnxruntime")).candidates["integer convolutions and matrix products"]

    written = write(model, settings, _calibrated(model, settings, rng).tensors)

    operators = _optimized(written.model, tmp_path)
    assert operators["QLinearAdd"] == 2
    assert not {"Add", "Relu"} & operators.keys()


def test_onnxruntime_computes_stored_weights_when_it_loads(cnn: ir.Model, tmp_path: Path) -> None:
    settings = Placement.read(_placement("edgekit_onnxruntime")).candidates["weights only"]

    written = write(cnn, settings, {})

    assert written.stored == ["c"]  # the others have few weights
    assert set(written.kept_float.values()) == {"its weights are few"}
    assert not {"Cast", "Div", "DequantizeLinear"} & _optimized(written.model, tmp_path).keys()


def test_openvino_convolves_integers(cnn: ir.Model, rng: np.random.Generator, tmp_path: Path) -> None:
    settings = next(iter(Placement.read(_placement("edgekit_openvino")).candidates.values()))

    written = write(cnn, settings, _calibrated(cnn, settings, rng).tensors)

    types = _compiled(written.model, tmp_path)
    integers = types["Convolution", "i8"] + types["Convolution", "u8"]
    assert integers == 3, types


def test_openvino_multiplies_matrices_of_integers(
    transformer: ir.Model, rng: np.random.Generator, tmp_path: Path
) -> None:
    settings = next(iter(Placement.read(_placement("edgekit_openvino")).candidates.values()))

    written = write(transformer, settings, _calibrated(transformer, settings, rng).tensors)

    types = _compiled(written.model, tmp_path)
    integers = types["FullyConnected", "i8"] + types["FullyConnected", "u8"]
    assert integers == 2, types


def test_openvino_has_no_zero_points_to_take_off(
    cnn: ir.Model, transformer: ir.Model, rng: np.random.Generator, tmp_path: Path
) -> None:
    settings = next(iter(Placement.read(_placement("edgekit_openvino")).candidates.values()))

    def taken_off(model: ir.Model, settings: Settings) -> int:
        written = write(model, settings, _calibrated(model, settings, rng).tensors)
        return sum("DequantizationSubtract" in layers for layers in _fused_layers(written.model, tmp_path))

    told = replace(settings, zero_points_in_biases=False, preparation=replace(settings.preparation, ranges={}))
    assert taken_off(transformer, settings) == 0
    assert taken_off(transformer, told) == 1  # what comes in; behind Relu nothing is negative


def test_openvino_convolves_depthwise_between_integers(
    parse: Callable[..., ir.Model], rng: np.random.Generator, tmp_path: Path
) -> None:
    shapes = {"w1": (16, 8, 1, 1), "w2": (16, 1, 3, 3), "w3": (16, 16, 1, 1)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model = prepared(parse(SEPARABLE, **arrays))
    settings = next(iter(Placement.read(_placement("edgekit_openvino")).candidates.values()))
    calibration = _calibrated(model, settings, rng)

    written = write(model, settings, calibration.tensors)

    types = _compiled(written.model, tmp_path)
    assert types["Convolution", "u8"] == 3, types
    assert not types["Subgraph", "f32"] - 1, types  # what quantizes the input; all else is done by the convolutions
    assert calibration.tensors["h"].smoothing is not None


def test_openvino_scores_attention_with_integers(
    parse: Callable[..., ir.Model], rng: np.random.Generator, tmp_path: Path
) -> None:
    arrays = {name: (rng.normal(size=(32, 32)) / 6).astype(np.float32) for name in ("wq", "wk", "wv")}
    model = prepared(parse(ATTENTION, **arrays))
    settings = next(iter(Placement.read(_placement("edgekit_openvino")).candidates.values()))

    written = write(model, settings, _calibrated(model, settings, rng).tensors)

    types = _compiled(written.model, tmp_path)
    assert types["FullyConnected", "i8"] == 3, types
    assert types["Subgraph", "i8"] + types["MatMul", "i8"] == 1, types


def test_only_the_product_before_softmax_is_one_of_integers(parse: Callable[..., ir.Model]) -> None:
    arrays = {name: np.ones((32, 32), np.float32) for name in ("wq", "wk", "wv")}
    model = parse(ATTENTION, **arrays)

    plan = place(model.graph, Settings(activation_products=True))

    assert [node.outputs[0].name for node in plan.products] == ["p"]
    assert {"q", "t"} <= plan.tensors.keys()
    assert not {"s", "v"} & plan.tensors.keys()


def test_a_bias_for_every_position_stays_as_it_is(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 16, 32] x) => (float[1, 16, 32] y) { m = MatMul(x, w)  y = Add(m, b) }"""
    arrays = {"w": rng.normal(size=(32, 32)), "b": rng.normal(size=(1, 16, 32))}
    model = prepared(parse(text, **{name: array.astype(np.float32) for name, array in arrays.items()}))
    settings = Placement.read(_placement("edgekit_onnxruntime")).candidates["integer matrix products"]

    written = write(model, settings, _calibrated(model, settings, rng).tensors)

    data = {"x": rng.normal(size=(1, 16, 32)).astype(np.float32)}
    (exact,), (found,) = execute(model, data), execute(written.model, data)
    assert np.linalg.norm(found - exact) < 0.03 * np.linalg.norm(exact)
