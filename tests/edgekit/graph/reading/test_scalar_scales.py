"""Scales of one element, which optimizers of ONNX Runtime refuse (before 1.32, Add and Mul too), against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

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
