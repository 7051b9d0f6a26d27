import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from edgekit.bundle import read_bundle, validate_graph
from edgekit.errors import RequirementError
from edgekit.model import Model
from edgekit.reporting.graph_record import graph_record


def record_of(proto: onnx.ModelProto) -> dict[str, Any]:
    record = graph_record(Model(ir.from_proto(proto)))
    validate_graph(record)
    assert json.loads(json.dumps(record)) == record
    return record


def test_nodes_values_and_weights(onnx_model: Callable[..., onnx.ModelProto]) -> None:
    record = record_of(
        onnx_model(
            "f (float[N, 3] x) => (float[N, 2] y) { p = MatMul(x, w)  y = LeakyRelu<alpha = 0.25>(p) }",
            w=np.zeros((3, 2), np.float32),
        )
    )
    values, (product, activation) = record["values"], record["nodes"]
    assert [values[place]["name"] for place in product["inputs"]] == ["x", "w"]
    assert product["op"] == "MatMul"
    assert "attributes" not in product
    assert activation["inputs"] == product["outputs"]
    assert activation["attributes"] == {"alpha": "0.25"}
    by_name = {value["name"]: value for value in values}
    assert by_name["w"] == {"name": "w", "dtype": "float32", "shape": [3, 2], "bytes": 24}
    assert by_name["x"] == {"name": "x", "dtype": "float32", "shape": ["N", 3]}
    assert [values[place]["name"] for place in (*record["inputs"], *record["outputs"])] == ["x", "y"]


def test_optional_inputs_that_are_left_out(onnx_model: Callable[..., onnx.ModelProto]) -> None:
    record = record_of(onnx_model("f (float[3] x, float h) => (float[3] y) { y = Clip(x, , h) }"))
    (clip,) = record["nodes"]
    assert clip["inputs"][1] is None
    assert None not in (clip["inputs"][0], clip["inputs"][2])


def test_nodes_of_subgraphs_stand_within_their_holder() -> None:
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["x"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])],
        )
        for name, op in (("then", "Exp"), ("else", "Neg"))
    }
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], **branches)],
        "f",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    record = record_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    assert {(node["op"], node.get("within")) for node in record["nodes"]} == {("If", None), ("Exp", 0), ("Neg", 0)}
    assert set(record["nodes"][0]["attributes"].values()) == {"graph of 1 nodes"}
    assert record["nodes"][1]["inputs"] == [record["inputs"][1]]


def test_long_attributes_are_cut(onnx_model: Callable[..., onnx.ModelProto]) -> None:
    numbers = ", ".join(map(str, range(40)))
    record = record_of(onnx_model(f"f () => (int64[40] y) {{ y = Constant<value_ints = [{numbers}]>() }}"))
    text = record["nodes"][0]["attributes"]["value_ints"]
    assert text.startswith("[0, 1, 2,")
    assert text.endswith(", 15, …]")


def test_a_bundle_holds_its_graph(bundle: Path) -> None:
    graph = read_bundle(bundle).graph()
    assert graph is not None
    assert "Conv" in {node["op"] for node in graph["nodes"]}
    (bundle / "graph.json").write_text('{"format": 1}')
    with pytest.raises(RequirementError, match=r"graph\.json: cannot be read: '\w+' is missing"):
        read_bundle(bundle).graph()
    (bundle / "graph.json").write_text("{")
    with pytest.raises(RequirementError, match=r"graph\.json: cannot be read: "):
        read_bundle(bundle).graph()
    (bundle / "graph.json").unlink()
    assert read_bundle(bundle).graph() is None
