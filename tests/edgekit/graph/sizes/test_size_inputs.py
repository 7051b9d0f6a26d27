"""Inputs by whose values tensors inside get their sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.data.battery import KINDS, battery_inputs
from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import index_limits
from edgekit.graph.sizes.size_inputs import inputs_of_sizes
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]
SCALED = """g (float[1, 1, 4, 4] x, float[1] k) => (float[1, 1, p, q] y) {
    scales = Concat <axis = 0> (ones, k, k) y = Resize <mode = "nearest"> (x, , scales)
}"""
NUMBERS = {"ones": np.ones(2, np.float32)}


def model(onnx_model: OnnxModel, graph: str, **numbers: np.ndarray) -> Model:
    return Model(ir.from_proto(onnx_model(graph, **numbers)))


@pytest.mark.parametrize(
    ("graph", "names"),
    [
        (SCALED, ["k"]),
        ("g (float[4] x, int64[2] s) => (float[r, c] y) { y = Reshape (x, s) }", ["s"]),
        ("g (float[4] x, float[2, 2] s) => (float[r, c] y) { h = Shape (s) y = Reshape (x, h) }", []),
        ("g (float[4] x, float[1] s) => (float[n] y) { c = Cast <to = 7> (s) y = Tile (x, c) }", ["s"]),
        ("g (float[4] x, float[40] s) => (float[n] y) { m = ReduceMax (s) c = Cast <to = 7> (m) y = Tile (x, c) }", []),
        (
            "g (float[4] x, bool b, int64[1] s) => (float[n] y) { r = If (b) <then_branch = t () => (int64[1] u) "
            "{ u = Neg (s) }, else_branch = e () => (int64[1] v) { v = Abs (s) }> y = Tile (x, r) }",
            ["b", "s"],
        ),
    ],
)
def test_what_sizes_are_computed_of(onnx_model: OnnxModel, graph: str, names: list[str]) -> None:
    numbers = NUMBERS if graph == SCALED else {}
    assert inputs_of_sizes(model(onnx_model, graph, **numbers)) == names


def test_they_are_one_or_as_in_a_sample_where_inputs_are_drawn(onnx_model: OnnxModel) -> None:
    plain = model(onnx_model, SCALED, **NUMBERS)
    sampled = Model(plain.graph_model, sample_values={"k": np.array([0.5], np.float32)})
    for tried, value in ((plain, 1.0), (sampled, 0.5)):
        limits = index_limits(tried)
        assert seeded_inputs(tried.inputs, 0, limits)["k"] == value
        assert {float(battery_inputs(tried.inputs, kind, limits)["k"][0]) for kind in KINDS} == {value}
