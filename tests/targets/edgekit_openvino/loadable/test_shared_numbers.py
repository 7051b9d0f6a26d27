"""Numbers that several layers of a perceptron read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino
from edgekit_openvino.runner import SETTINGS

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((1, 64)).astype(np.float32)


def perceptron(between: str, shapes: list[tuple[int, ...]]) -> onnx.ModelProto:
    """Two layers with a Tanh, whose results are ``between`` with 0.25: one for both, or one for each."""
    names = [f"c{n}" for n in range(len(shapes))]
    layers = f"""p = MatMul (x, w1) r = Tanh (p) s = {between} (r, {names[0]})
        q = MatMul (s, w2) t = Tanh (q) y = {between} (t, {names[-1]})"""
    proto = onnx.parser.parse_model(f"{HEAD} agraph (float[1, 64] x) => (float[1, 64] y) {{ {layers} }}")
    held = {f"w{n}": RANDOM.standard_normal((64, 64)) / 8 for n in (1, 2)}
    held |= {name: np.full(shape, 0.25) for name, shape in zip(names, shapes, strict=True)}
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in held.items()
    )
    return proto


@pytest.mark.parametrize("between", ["Add", "Max", "Sub"])
@pytest.mark.parametrize("shapes", [[()], [(1, 1)], [(), ()], [(), (1,)], [(1, 1), (1,)]])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_perceptrons_load(between: str, shapes: list[tuple[int, ...]], precision: str, tmp_path: Path) -> None:
    proto = perceptron(between, shapes)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": X})
    built = edgekit_openvino.convert(proto, tmp_path / "m", precision=precision)
    found = edgekit_openvino.load(built).run({"x": X})["y"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 if precision == "float32" else 1e-2)


def test_openvino_still_refuses_them(tmp_path: Path) -> None:
    """If this fails, OpenVINO has fixed it."""
    onnx.save(perceptron("Add", [(1, 1)]), tmp_path / "m.onnx")
    with pytest.raises(RuntimeError, match="Scalar expression"):
        openvino.Core().compile_model(tmp_path / "m.onnx", "CPU", {**SETTINGS, "INFERENCE_NUM_THREADS": 1})
