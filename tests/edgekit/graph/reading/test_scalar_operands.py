"""Operands of one element in place of scalars.

Scales, which optimizers of ONNX Runtime refuse (before 1.32, Add and Mul too), against NumPy; others against ONNX
Runtime.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgekit.graph.sizes.shapes import fold_constants
from edgekit.stages.load import Load

SCALE, ZERO_POINT = 0.05, 3
X = np.random.default_rng(1).normal(0, 4, (1, 3, 4)).astype(np.float32)


def model(tmp_path: Path, body: str, *, scale: str = f"float[1] e = {{{SCALE}}}", axis: str = "") -> Path:
    text = f"""<ir_version: 10, opset_import: ["" : 21]> g (float[1,3,4] x) => (float[a,b,c] y)
        <{scale}, uint8[1] z = {{{ZERO_POINT}}}>
        {{ q = QuantizeLinear {axis} (x, e, z) d = DequantizeLinear {axis} (q, e, z) r = {body}
           s = QuantizeLinear (r, e, z) y = DequantizeLinear (s, e, z) }}"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def rounded(x: np.ndarray) -> np.ndarray:
    steps = np.clip(np.rint(x / np.float32(SCALE)) + ZERO_POINT, 0, 255) - ZERO_POINT
    return (steps * np.float32(SCALE)).astype(np.float32)


@pytest.mark.parametrize("axis", ["", "<axis = 0>"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Add (d, d)", lambda d: d + d),
        ("Mul (d, d)", lambda d: d * d),
        ("AveragePool <kernel_shape = [4]> (d)", lambda d: d.mean(-1, keepdims=True)),
    ],
)
def test_a_model_with_scales_of_one_element_runs_optimized(tmp_path: Path, body: str, expected, axis: str) -> None:
    loaded = Load().run(model(tmp_path, body, axis=axis)).model
    roundings = [node for node in loaded.graph if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    assert [value.shape for node in roundings for value in node.inputs[1:] if value is not None] == [[]] * 8
    loaded.save(tmp_path / "loaded.onnx")

    session = onnxruntime.InferenceSession(tmp_path / "loaded.onnx", providers=["CPUExecutionProvider"])
    y = np.asarray(session.run(None, {"x": X})[0])
    np.testing.assert_allclose(y, rounded(expected(rounded(X))), atol=SCALE * 1.001)
    assert np.mean(y == rounded(expected(rounded(X)))) > 0.9


def test_a_scale_of_a_block_stays(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y)
        <float[1] e = {0.5}, uint8[1] z = {3}>
        { q = QuantizeLinear <axis = 0, block_size = 4> (x, e, z)
          y = DequantizeLinear <axis = 0, block_size = 4> (q, e, z) }"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)

    graph = Load().run(path).model.graph

    assert [[value.shape for value in node.inputs[1:] if value is not None] for node in graph] == [[[1], [1]]] * 2


def test_scales_of_several_channels_stay(tmp_path: Path) -> None:
    path = model(tmp_path, "Add (d, d)")
    proto = onnx.load(path)
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("axis", 1))
    proto.graph.node[1].attribute.append(onnx.helper.make_attribute("axis", 1))
    for place, name in ((1, "e3"), (2, "z3")):
        values = np.array([0.05, 0.1, 0.2], np.float32) if place == 1 else np.full(3, 3, np.uint8)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
        proto.graph.node[0].input[place] = proto.graph.node[1].input[place] = name
    onnx.save(proto, path)

    graph = Load().run(path).model.graph

    shapes = [
        [value.shape for value in node.inputs[1:] if value is not None] for node in graph if "Linear" in node.op_type
    ]
    assert shapes == [[[3], [3]]] * 2 + [[[], []]] * 2


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("y = CumSum (x, one)", 1),
        ("c = Constant <value_ints = [1]> ()  y = CumSum (x, c)", 1),
        ("y = Trilu (x, one)", 1),
        ("y = Clip (x, low, )", 1),
        ("y = Clip (x, , low)", 2),
        ("y = Pad (x, pads, low)", 2),
        ("i = ArgMax <axis = 1, keepdims = 0> (x)  y = OneHot (i, four, pair)", 1),
    ],
)
def test_other_operands_of_one_element(tmp_path: Path, body: str, place: int) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21]> g (float[3,4] x) => (float[a,b] y)
        <int64[1] one = {{1}}, int64[1] four = {{4}}, float[1] low = {{-0.5}}, int64[4] pads = {{0, 1, 1, 0}},
         float[2] pair = {{0, 1}}> {{ {body} }}"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    x = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)
    right = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]

    model = Load().run(path).model

    operand = model.graph[-1].inputs[place]
    assert operand is not None
    assert operand.shape == []
    model.save(path)
    found = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    np.testing.assert_array_equal(found, right)


def test_sums_of_constants_along_an_axis_of_one_element_are_folded(tmp_path: Path) -> None:
    """PyTorch's exporter writes them for repeat_interleave; OpenVINO took no size that comes from them."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[4,5] x) => (float[a,b] y)
        <int64[4] repeats = {1, 0, 3, 2}, int64[1] axis = {0}, int64 last = {3}, int64 zero = {0}, int64 one = {1}>
        { s = CumSum (repeats, axis)  n = Gather (s, last)  r = Range (zero, n, one)  c = Div (r, last)
          y = Gather (x, c) }"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)

    graph = Load().run(path).model.graph_model.clone()
    fold_constants(graph)

    assert [node.op_type for node in graph.graph] == ["Gather"]
