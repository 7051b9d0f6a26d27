from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import edgekit
from edgekit_quantize.prepare import prepared

NETWORK = """<ir_version: 8, opset_import: ["" : {opset}]>
g (float[1, 3, 8, 8] x) => (float[1, 5] y)
{{
  z = Conv(x, w)
  m = ReduceMax<{attributes}>({inputs})
  y = MatMul(m, v)
}}"""
OLD = {"opset": 13, "attributes": "axes = [2, 3], keepdims = 0", "inputs": "z"}
NEW = {"opset": 18, "attributes": "keepdims = 0", "inputs": "z, axes"}


def network(parse: Callable[..., ir.Model], rng: np.random.Generator, form: dict[str, object]) -> ir.Model:
    weights = {"w": (16, 3, 1, 1), "v": (16, 5)}
    return parse(
        NETWORK.format(**form),
        **{name: rng.standard_normal(shape).astype(np.float32) for name, shape in weights.items()},
        axes=np.array([2, 3]),
    )


@pytest.mark.parametrize("form", [OLD, NEW], ids=["opset 13", "opset 18"])
def test_a_maximum_keeps_its_axes_until_squeeze(
    parse: Callable[..., ir.Model],
    execute: Callable[..., list[np.ndarray]],
    rng: np.random.Generator,
    form: dict[str, object],
) -> None:
    model = network(parse, rng, form)
    result = prepared(model)
    (reduction,) = [node for node in result.graph if node.op_type == "ReduceMax"]
    assert reduction.attributes.get_int("keepdims") == 1
    feeds = {"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)}
    np.testing.assert_array_equal(execute(result, feeds)[0], execute(model, feeds)[0])


@pytest.mark.slow
def test_openvino_computes_the_quantized_file_as_onnx_runtime_does(
    tmp_path: Path, parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    import onnxruntime
    import openvino

    (tmp_path / "data").mkdir()
    for number in range(16):
        np.savez(tmp_path / "data" / f"{number}.npz", x=rng.standard_normal((1, 3, 8, 8)).astype(np.float32))
    ir.save(network(parse, rng, NEW), tmp_path / "m.onnx")
    quantized = edgekit.quantize(
        tmp_path / "m.onnx", tmp_path / "q.onnx", data=tmp_path / "data", scheme="int8", target="openvino"
    )
    assert quantized.record["quantized"]
    network_of = openvino.Core().compile_model(tmp_path / "q.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    session = onnxruntime.InferenceSession(tmp_path / "q.onnx")
    feeds = {"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)}
    (expected,) = session.run(None, feeds)
    np.testing.assert_allclose(network_of(feeds)[0], expected, atol=0.05 * np.abs(expected).max())
