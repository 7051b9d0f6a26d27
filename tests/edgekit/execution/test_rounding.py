from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.execution.reference import Reference
from edgekit.execution.rounding import perturbed, perturbed_weights, with_values_moved
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

WEIGHTS = np.random.default_rng(0).standard_normal(400).astype(np.float32)


def constant(name: str, array: np.ndarray) -> onnx.NodeProto:
    return onnx.helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(array))


@pytest.mark.parametrize("stored", ["initializer", "Constant node"])
def test_half_of_the_weights_move_to_a_neighbour_however_they_are_stored(onnx_model: OnnxModel, stored: str) -> None:
    graph = "g (float[400] x) => (float[400] y) { y = Add (x, w) }"
    proto = onnx_model(graph, **({"w": WEIGHTS} if stored == "initializer" else {}))
    if stored == "Constant node":
        proto.graph.node.insert(0, constant("w", WEIGHTS))
    model = Model(ir.from_proto(proto))
    zeros = {"x": np.zeros(400, np.float32)}
    moved = Reference(perturbed_weights(model, 0)).run(zeros)["y"]
    steps = np.abs(moved.view(np.int32).astype(np.int64) - WEIGHTS.view(np.int32))
    assert set(steps) == {0, 1}
    assert 150 < steps.sum() < 250
    np.testing.assert_array_equal(Reference(model).run(zeros)["y"], WEIGHTS)


def test_half_of_the_numbers_of_a_linear_model_move_to_a_neighbour() -> None:
    nodes = [
        onnx.helper.make_node("LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=WEIGHTS, targets=1),
        onnx.helper.make_node("SVMRegressor", ["x"], ["z"], domain="ai.onnx.ml", coefficients=WEIGHTS, n_supports=0),
    ]
    values = [onnx.helper.make_tensor_value_info(name, 1, (1, size)) for name, size in (("x", 400), ("y", 1), ("z", 1))]
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    proto = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", values[:1], values[1:]), opset_imports=opsets)
    graph = perturbed_weights(Model(ir.from_proto(proto)), 0).graph
    assert len(graph) == 2
    for node in graph:
        moved = np.asarray(node.attributes.get_floats("coefficients"), np.float32)
        steps = np.abs(moved.view(np.int32).astype(np.int64) - WEIGHTS.view(np.int32))
        assert set(steps) == {0, 1}
        assert 150 < steps.sum() < 250


def test_numbers_that_say_how_much_there_is_to_compute_stay(onnx_model: OnnxModel) -> None:
    proto = onnx_model("g (float[1, 1, 3, 3] x) => (float[1, 1, 9, 9] y) { y = Resize (x, , scales) }")
    proto.graph.node.insert(0, constant("scales", np.array([1, 1, 3.1, 3.1], np.float32)))
    for seed in range(10):
        (node, _) = perturbed_weights(Model(ir.from_proto(proto)), seed).graph
        np.testing.assert_array_equal(node.attributes["value"].as_tensor().numpy(), np.float32([1, 1, 3.1, 3.1]))


@pytest.mark.filterwarnings("ignore:overflow encountered in nextafter")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numbers_move_to_the_next_one_in_either_direction(dtype: type[np.floating]) -> None:
    edges = [0, -0.0, 1, -1, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).tiny, np.finfo(dtype).max, np.inf]
    array = np.array([edges, [-number for number in edges]] * 50, dtype).T
    found = perturbed(array, np.random.default_rng(0), whole_too=True)
    up, down = (np.nextafter(array, dtype(direction)) for direction in (np.inf, -np.inf))
    stays, rises, falls = found == array, found == up, found == down
    assert (stays | rises | falls).all()
    finite = np.isfinite(array)
    assert stays[~finite].all()
    for each, share in ((stays, 1 / 2), (rises, 1 / 4), (falls, 1 / 4)):
        assert abs(each[finite].mean() - share) < 0.05


def test_whole_numbers_and_halves_stay_unless_asked_for() -> None:
    array = np.array([0, 1, -2, 0.5, -1.5] * 9, np.float32).reshape(3, 15)
    np.testing.assert_array_equal(perturbed(array, np.random.default_rng(0)), array)
    assert (perturbed(array, np.random.default_rng(0), whole_too=True) != array).any()
    scalar = perturbed(np.array(0.3, np.float32), np.random.default_rng(3))
    assert scalar.shape == ()
    assert scalar.dtype == np.float32


def test_numbers_of_a_value_inside_move_by_two_roundings(onnx_model: OnnxModel) -> None:
    proto = onnx_model("g (float[N] x) => (float[N] a, float[N] y) { a = Neg (x) y = Abs (a) }")
    model = infer_shapes(Model(ir.from_proto(proto)), strict=False)
    feeds = {"x": WEIGHTS}
    first, second = (Reference(with_values_moved(model, ["a"], seed)).run(feeds) for seed in (0, 1))
    steps = np.abs(first["a"]).view(np.int32).astype(np.int64) - np.abs(WEIGHTS).view(np.int32)
    assert set(steps) == {-2, -1, 0, 1, 2}
    assert 60 < np.count_nonzero(steps > 0) < 140, "a factor above 1 needs more than half a unit: a quarter"
    assert 110 < np.count_nonzero(steps < 0) < 190, "one below 1 half of that: three eighths"
    assert not np.array_equal(first["a"], second["a"])
    np.testing.assert_array_equal(first["y"], np.abs(first["a"]))
    np.testing.assert_array_equal(Reference(model).run(feeds)["a"], -WEIGHTS)
