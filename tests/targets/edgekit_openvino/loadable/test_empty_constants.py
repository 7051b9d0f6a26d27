"""Constants without elements keep their shape, which OpenVINO's frontend makes that of a scalar."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino

GRAPHS = {
    "returned": "y = Neg (x) z = Identity (nothing)",
    "joined": "y = Neg (x) z = Concat <axis = 0> (nothing, x)",
    "the region of a Resize": "p = Unsqueeze (x, front) r = Resize (p, nothing, twice) "
    "y = Squeeze (r, front) z = Neg (x)",
}
NOTHING = {"nothing": np.zeros(0, np.float32)}
CONSTANTS = NOTHING | {
    "front": np.array([0, 1]),
    "twice": np.array([1, 1, 2], np.float32),
}


@pytest.mark.parametrize("case", GRAPHS)
@pytest.mark.parametrize("as_node", [False, True])
def test_agrees_with_onnx(case: str, as_node: bool, tmp_path: Path, onnx_model: Callable[..., onnx.ModelProto]) -> None:
    proto = onnx_model(f"g (float[4] x) => (float[N] y, float[M] z) {{ {GRAPHS[case]} }}", opset=18, **CONSTANTS)
    if as_node:
        tensor = onnx.numpy_helper.from_array(NOTHING["nothing"])
        (initializer,) = (each for each in proto.graph.initializer if each.name == "nothing")
        proto.graph.initializer.remove(initializer)
        proto.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["nothing"], value=tensor))
    x = np.arange(4, dtype=np.float32)
    expected = ReferenceEvaluator(proto).run(None, {"x": x})

    found = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "built")).run({"x": x})

    for output, want in zip(proto.graph.output, expected, strict=True):
        assert found[output.name].shape == want.shape
        np.testing.assert_array_equal(found[output.name], want)


def test_openvino_still_reads_them_as_scalars(onnx_file: Callable[..., Path]) -> None:
    path = onnx_file("g (float[4] x) => (float[4] y, float[0] z) { y = Neg (x) z = Identity (nothing) }", **NOTHING)
    assert [list(output.get_partial_shape()) for output in openvino.Core().read_model(path).outputs][1] == []


def test_a_branch_that_returns_nothing(tmp_path: Path, onnx_model: Callable[..., onnx.ModelProto]) -> None:
    """As optimum's decoders do in place of a cache that stays: the other branch gives the tensor."""
    proto = onnx_model(
        """g (bool again, float[N, 2, 3] x) => (float[N, 2, 3] y, float[A, B, C] z) {
            y, z = If (again) <
                then_branch = t () => (float[N, 2, 3] y1, float[0, 2, 3] z1) { y1 = Neg (x)  z1 = Identity (nothing) },
                else_branch = e () => (float[N, 2, 3] y2, float[N, 2, 3] z2) { y2 = Abs (x)  z2 = Exp (x) }>
        }""",
        opset=18,
        nothing=np.zeros((0, 2, 3), np.float32),
    )
    runner = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "built"))
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3) / 8
    for again in (True, False):
        feeds = {"again": np.array(again), "x": x}
        found = runner.run(feeds)
        for name, want in zip(("y", "z"), ReferenceEvaluator(proto).run(None, feeds), strict=True):
            assert found[name].shape == want.shape
            np.testing.assert_allclose(found[name], want, rtol=1e-6)
