from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.stages.load import Load

X = np.array([[3, -4, 0], [-1, 2, -2], [0, 0, 0]], np.float32)
LENGTHS = np.array([[0.6, -0.8, 0], [-1 / 3, 2 / 3, -2 / 3], [0, 0, 0]], np.float32)


def written(path: Path, norm: str, *, opset: int = 17, in_branch: bool = False) -> Path:
    """A model that normalizes the double of half of its input, the shapes of all values known."""
    inside = [
        helper.make_node("Mul", ["x", "half"], ["h"], name="halve"),
        helper.make_node("Add", ["h", "h"], ["a"], name="double"),
        helper.make_node("Normalizer", ["a"], ["n"], name="norm", domain="ai.onnx.ml", norm=norm),
        helper.make_node("MatMul", ["n", "eye"], ["m"], name="hand on"),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 3])
    nodes = [*inside, helper.make_node("Identity", ["m"], ["y"], name="out")]
    if in_branch:
        m = helper.make_tensor_value_info("m", TensorProto.FLOAT, [3, 3])
        other = helper.make_graph([helper.make_node("Identity", ["x"], ["m"], name="as it is")], "no", [], [m])
        branches = {"then_branch": helper.make_graph(inside, "yes", [], [m]), "else_branch": other}
        nodes = [
            helper.make_node("ReduceMax", ["x"], ["top"], name="top", keepdims=0),
            helper.make_node("Greater", ["top", "half"], ["some"], name="some"),
            helper.make_node("If", ["some"], ["y"], name="choose", **branches),
        ]
    graph = helper.make_graph(
        nodes,
        "norms",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 3])],
        [y],
        [
            helper.make_tensor("half", TensorProto.FLOAT, [], [0.5]),
            helper.make_tensor("eye", TensorProto.FLOAT, [3, 3], np.eye(3).ravel()),
        ],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


@pytest.mark.parametrize("in_branch", [False, True])
@pytest.mark.parametrize("opset", [11, 17, 18])
def test_a_norm_keeps_the_signs_where_all_shapes_are_known(tmp_path: Path, opset: int, in_branch: bool) -> None:
    model = infer_shapes(Load()(written(tmp_path / "m.onnx", "L2", opset=opset, in_branch=in_branch)).model)
    assert "Normalizer" not in [node.op_type for node in model.graph.all_nodes()]
    (found,) = onnxruntime.InferenceSession(model.proto().SerializeToString()).run(None, {"x": X})
    np.testing.assert_allclose(found, LENGTHS, rtol=1e-6)


@pytest.mark.parametrize(
    ("norm", "expected"),
    [("L1", [[3 / 7, -4 / 7, 0], [-0.2, 0.4, -0.4], [0, 0, 0]]), ("MAX", [[1, -4 / 3, 0], [-0.5, 1, -1], [0, 0, 0]])],
)
def test_norms_that_onnx_runtime_computes_right_stay(tmp_path: Path, norm: str, expected: list[list[float]]) -> None:
    model = infer_shapes(Load()(written(tmp_path / "m.onnx", norm)).model)
    assert "Normalizer" in [node.op_type for node in model.graph.all_nodes()]
    (found,) = onnxruntime.InferenceSession(model.proto().SerializeToString()).run(None, {"x": X})
    np.testing.assert_allclose(found, np.array(expected, np.float32), rtol=1e-6)
