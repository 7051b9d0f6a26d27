"""Constants that a file holds as lists of numbers, not as bytes, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
from onnx import TensorProto, helper

import edgekit_openvino

NUMBERS = [0, 1, 2, 3]
FEEDS = {"x": np.zeros(4, np.float32)}
MISREAD = ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "UINT32"]
READ_RIGHT = ["BOOL", "DOUBLE", "FLOAT", "FLOAT16", "INT16", "INT4", "INT64", "INT8", "UINT16", "UINT64", "UINT8"]


def model(kind: str, *, is_node: bool = False) -> onnx.ModelProto:
    """The sum of x and a constant, which is a list in the file."""
    numbers = [int(number > 0) for number in NUMBERS] if kind == "BOOL" else NUMBERS
    constant = helper.make_tensor("c", getattr(TensorProto, kind), [4], numbers)
    assert not constant.HasField("raw_data")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    nodes = [helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT), helper.make_node("Add", ["f", "x"], ["y"])]
    if is_node:
        nodes.insert(0, helper.make_node("Constant", [], ["c"], value=constant))
    graph = helper.make_graph(nodes, "g", [x], [y], [] if is_node else [constant])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("is_node", [False, True], ids=["initializer", "node"])
@pytest.mark.parametrize("kind", [*MISREAD, *READ_RIGHT])
def test_it_is_as_in_onnx_runtime(kind: str, is_node: bool, tmp_path: Path) -> None:
    proto = model(kind, is_node=is_node)
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, FEEDS)
    found = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "model")).run(FEEDS)["y"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", MISREAD)
def test_openvino_still_misreads_it(kind: str, tmp_path: Path) -> None:
    onnx.save(model(kind), tmp_path / "plain.onnx")
    compiled = openvino.Core().compile_model(tmp_path / "plain.onnx", "CPU")
    assert not np.array_equal(next(iter(compiled(FEEDS).values())), NUMBERS)
