from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from edgekit.bundle import read_bundle
from edgekit.comparison import layers
from edgekit.comparison.layers import layer_errors
from edgekit.execution.node_times import node_times
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

GRAPH = """f (float[4, 8] x) => (float[4, 8] y) {
    product = MatMul(x, w)
    rectified = Relu(product)
    y = Sub(rectified, x)
}"""


@pytest.fixture
def feeds() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(5).normal(size=(4, 8)).astype(np.float32)}


def weights(step: float) -> np.ndarray:
    """Random ones, rounded to steps."""
    exact = np.random.default_rng(7).normal(size=(8, 8))
    return (np.round(exact / step) * step).astype(np.float32)


def model(proto: onnx.ModelProto) -> Model:
    return Model(ir.from_proto(proto))


@pytest.mark.parametrize("at_once", [2**27, 1])
def test_errors_are_those_of_the_official_reference(
    onnx_model: OnnxModel, feeds: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(layers, "AT_ONCE_BYTES", at_once)
    exact, rounded = (onnx_model(GRAPH, w=weights(step)) for step in (1e-6, 0.1))
    told: list[tuple[str, int, int]] = []
    found = layer_errors(model(exact), model(rounded), feeds, lambda *step: told.append(step))
    assert told == [("comparing what each layer gives", done, 3) for done in range(3 if at_once == 1 else 1)]
    assert list(found.sqnr_db) == ["product", "rectified", "y"]
    assert found.left_out == 0
    for name, decibels in found.sqnr_db.items():
        outputs = []
        for proto in (exact, rounded):
            watched = onnx.ModelProto()
            watched.CopyFrom(proto)
            watched.graph.output[0].name = name
            outputs.append(ReferenceEvaluator(watched).run([name], feeds)[0].astype(np.float64))
        expected = 10 * np.log10(np.sum(outputs[0] ** 2) / np.sum((outputs[0] - outputs[1]) ** 2))
        assert decibels == pytest.approx(expected, abs=0.01)


def test_values_that_only_one_graph_has_and_those_of_other_shapes_are_not_compared(
    onnx_model: OnnxModel, feeds: dict[str, np.ndarray]
) -> None:
    first = onnx_model(
        "f (float[4, 8] x) => (float[4, 8] y) { a = Exp(x) b = Transpose(a) c = Transpose(b) y = Abs(c) }"
    )
    second = onnx_model("f (float[4, 8] x) => (float[4, 8] y) { a = Exp(x) b = Neg(a) d = Neg(b) y = Abs(d) }")
    assert layer_errors(model(first), model(second), feeds).sqnr_db == {"a": np.inf, "y": np.inf}


def test_the_largest_values_are_left_out_where_there_is_too_much(
    onnx_model: OnnxModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = """f (float[8] x) => (float[8] y) {
        s = Slice(x, zero, one)
        wide = Concat<axis = 0>(x, x)
        sum = Add(s, s)
        y = Add(x, sum)
    }"""
    proto = onnx_model(graph, zero=np.array([0]), one=np.array([1]))
    monkeypatch.setattr(layers, "MOST_BYTES", (1 + 1 + 8) * 4)
    found = layer_errors(model(proto), model(proto), {"x": np.ones(8, np.float32)})
    assert set(found.sqnr_db) == {"s", "sum", "y"}
    assert found.left_out == 1


def test_the_node_that_does_the_work_takes_the_time(onnx_model: OnnxModel) -> None:
    graph = "f (float[768, 768] x) => (float[768, 768] y) { a = MatMul(x, x) y = Neg(a) }"
    proto = onnx_model(graph)
    for node, name in zip(proto.graph.node, ("heavy", "light"), strict=True):
        node.name = name
    times = node_times(model(proto), {"x": np.ones((768, 768), np.float32)})
    assert set(times) == {"heavy", "light"}
    assert times["heavy"] > times["light"] > 0


def test_a_branch_takes_its_own_time_not_the_holders() -> None:
    branches = {}
    for name, op in (("then", "MatMul"), ("else", "Add")):
        result = helper.make_tensor_value_info(name, TensorProto.FLOAT, [768, 768])
        node = helper.make_node(op, ["x", "x"], [name], name=f"in {name}")
        branches[f"{name}_branch"] = helper.make_graph([node], name, [], [result])
    inputs = [("c", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, [768, 768])]
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], name="choose", **branches)],
        "f",
        [helper.make_tensor_value_info(*spec) for spec in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [768, 768])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    times = node_times(model(proto), {"c": np.array(True), "x": np.ones((768, 768), np.float32)})
    assert set(times) == {"choose", "in then"}
    assert 0 <= times["choose"] < times["in then"]


def test_a_bundle_records_its_layers(bundle: Path) -> None:
    opened = read_bundle(bundle)
    graph = opened.graph()
    assert graph is not None
    record: dict[str, Any] = opened.manifest["stages"][-1]["record"]
    assert set(record["microseconds"]) == {node["name"] for node in graph["nodes"]}
    assert "sqnr_db" not in record, "nothing was quantized"
