from __future__ import annotations

import numpy as np
import pytest
from onnx.helper import make_node

from edgekit.errors import UnsupportedOpsError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_constants_beyond_int32_are_harmless_where_they_only_bound(graph_agrees):
    nodes = [make_node("Mul", ["large", "large"], ["end"]), make_node("Slice", ["x", "start", "end"], ["y"])]
    constants = {"large": np.array([2**31]), "start": np.array([1])}
    graph_agrees(nodes, {"x": X}, {"y": "float32"}, constants)


@pytest.mark.parametrize("number", [2**40, 2**31, -(2**31) - 1])
def test_constants_beyond_int32_are_refused_where_they_count(convert_graph, number):
    with pytest.raises(UnsupportedOpsError, match=f"the int64 constant {number} does not fit int32"):
        convert_graph(
            [make_node("Add", ["x", "k"], ["y"])], {"x": np.array([1])}, {"y": "int64"}, {"k": np.array(number)}
        )


@pytest.mark.parametrize("number", [2**31 - 1, -(2**31)])
def test_the_ends_of_int32_fit(graph_agrees, number):
    graph_agrees([make_node("Equal", ["x", "k"], ["y"])], {"x": np.array([1])}, {"y": "bool"}, {"k": np.array(number)})


def test_doubles_beyond_float32_are_refused(convert_graph):
    nodes = [make_node("Add", ["x", "k"], ["y"])]
    with pytest.raises(UnsupportedOpsError, match=r"1e\+200 does not fit float32"):
        convert_graph(nodes, {"x": np.array([1.0])}, {"y": "float64"}, {"k": np.array(1e200)})


def test_shape_arithmetic_folds_to_a_reshape(graph_agrees):
    nodes = [
        make_node("Shape", ["x"], ["shape"]),
        make_node("Gather", ["shape", "zero"], ["rows"]),
        make_node("Unsqueeze", ["rows", "first"], ["row_vector"]),
        make_node("Concat", ["row_vector", "rest", "row_vector"], ["target"], axis=0),
        make_node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.array(0), "first": np.array([0]), "rest": np.array([-1])}
    graph_agrees(nodes, {"x": np.arange(12, dtype=np.float32).reshape(2, 6)}, {"y": "float32"}, constants)


def test_repetition_is_not_stored(convert_graph, tmp_path):
    nodes = [make_node("Expand", ["k", "shape"], ["large"]), make_node("Add", ["x", "large"], ["y"])]
    x = np.zeros((512, 1024), np.float32)
    constants = {"k": np.ones((1, 1024), np.float32), "shape": np.array([512, 1024])}
    runner = convert_graph(nodes, {"x": x}, {"y": "float32"}, constants)
    stored = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert stored < 100_000
    np.testing.assert_array_equal(runner.run({"x": x})["y"], x + 1)


def test_uniform_constant_is_not_stored(convert_graph, tmp_path):
    nodes = [make_node("ConstantOfShape", ["shape"], ["zeros"]), make_node("Add", ["x", "zeros"], ["y"])]
    x = np.ones((512, 1024), np.float32)
    runner = convert_graph(nodes, {"x": x}, {"y": "float32"}, {"shape": np.array([512, 1024])})
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) < 100_000
    np.testing.assert_array_equal(runner.run({"x": x})["y"], x)


def test_an_axis_in_a_vector_folds_as_runtimes_take_it(graph_agrees):
    nodes = [make_node("CumSum", ["counts", "axis"], ["ends"]), make_node("Gather", ["x", "ends"], ["y"], axis=1)]
    constants = {"counts": np.array([0, 1, 1]), "axis": np.array([0])}
    graph_agrees(nodes, {"x": X}, {"y": "float32"}, constants)


def test_what_the_evaluator_refuses_is_a_gap_of_its_node(convert_graph):
    nodes = [make_node("Reshape", ["k", "shape"], ["other"]), make_node("Add", ["x", "other"], ["y"])]
    with pytest.raises(UnsupportedOpsError, match="Reshape"):
        convert_graph(nodes, {"x": X}, {"y": "float32"}, {"k": np.ones(6, np.float32), "shape": np.array([4, 2])})


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
def test_an_old_softmax_of_constants_is_over_all_axes_from_one_on(graph_agrees, op_type):
    nodes = [make_node(op_type, ["k"], ["s"]), make_node("Add", ["x", "s"], ["y"])]
    k = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    graph_agrees(nodes, {"x": np.zeros((2, 3, 4), np.float32)}, {"y": "float32"}, {"k": k}, opset=11)


@pytest.mark.parametrize(
    ("op_type", "shape", "attributes"),
    [
        ("GlobalMaxPool", (2, 3, 4), {}),
        ("MaxPool", (1, 2, 7, 6), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ],
)
def test_pools_of_constants_agree(graph_agrees, op_type, shape, attributes):
    nodes = [make_node(op_type, ["k"], ["p"], **attributes), make_node("Mul", ["x", "p"], ["y"])]
    k = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    graph_agrees(nodes, {"x": np.ones(1, np.float32)}, {"y": "float32"}, {"k": k})


def test_a_clipped_recurrence_of_constants_agrees(graph_agrees):
    rng = np.random.default_rng(0)
    shapes = {"k": (3, 1, 4), "w": (1, 2, 4), "r": (1, 2, 2)}
    constants = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        make_node("RNN", ["k", "w", "r"], ["steps"], hidden_size=2, clip=0.3),
        make_node("Add", ["x", "steps"], ["y"]),
    ]
    graph_agrees(nodes, {"x": np.zeros(2, np.float32)}, {"y": "float32"}, constants)
