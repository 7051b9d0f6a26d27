from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.diagnosis.scattered_twice import scattered_twice
from edgekit.model import Model

ELEMENTS = """g (float[4, 2] x, int64[3, 2] at, float[3, 2] new) => (float[4, 2] y) {
    y = ScatterElements <axis = 0> (x, at, new) }"""
ROWS = "g (float[4, 2] x, int64[3, 1] at, float[3, 2] new) => (float[4, 2] y) { y = ScatterND (x, at, new) }"
NEW = np.arange(6, dtype=np.float32).reshape(3, 2)


def warnings(onnx_model: Callable[..., onnx.ModelProto], graph: str, at: object, new: np.ndarray = NEW) -> list[str]:
    model = Model(ir.from_proto(onnx_model(graph)))
    return scattered_twice(model, [{"x": np.zeros((4, 2), np.float32), "at": np.array(at), "new": new}])


@pytest.mark.parametrize(
    ("graph", "apart", "twice", "lost"),
    [
        (ELEMENTS, [[0, 1], [1, 0], [2, 2]], [[0, 1], [0, 1], [2, 1]], 3),
        (ROWS, [[0], [3], [1]], [[1], [3], [1]], 1),
    ],
)
def test_places_that_get_several_values_are_told(
    onnx_model: Callable[..., onnx.ModelProto], graph: str, apart: object, twice: object, lost: int
) -> None:
    operator = "ScatterND" if graph is ROWS else "ScatterElements"
    assert warnings(onnx_model, graph, apart) == []
    assert warnings(onnx_model, graph, twice) == [
        f"node 'y' ({operator}) writes several values to one place (overwritten in a sample: {lost}): ONNX "
        "leaves open which one stays, and runtimes differ; if a sum is meant, as in PyTorch's index_add, export "
        "with dynamo=True, or use scatter_add"
    ]
    assert warnings(onnx_model, graph, twice, np.ones((3, 2), np.float32)) == []


@pytest.mark.parametrize("graph", [ELEMENTS, ROWS])
def test_sums_are_determined(onnx_model: Callable[..., onnx.ModelProto], graph: str) -> None:
    at = [[1, 1]] * 3 if graph is ELEMENTS else [[1]] * 3
    summed = graph.replace("axis = 0", 'axis = 0, reduction = "add"').replace("ND (", 'ND <reduction = "add"> (')
    assert len(warnings(onnx_model, graph, at)) == 1
    assert warnings(onnx_model, summed, at) == []


def test_indices_and_values_that_the_file_holds(onnx_model: Callable[..., onnx.ModelProto]) -> None:
    graph = """g (float[4] x) => (float[4] y) {
        places = Constant <value = int64[2] {2, 2}> ()
        z = ScatterND (x, at, new)  y = ScatterElements <axis = -1> (z, places, new) }"""
    stored = {"at": np.array([[1], [3]]), "new": np.float32([3, 4])}
    model = Model(ir.from_proto(onnx_model(graph, **stored)))
    (told,) = scattered_twice(model, [{"x": np.zeros(4, np.float32)}])
    assert told.startswith("node 'y' (ScatterElements) writes several values to one place (overwritten in a sample: 1)")
