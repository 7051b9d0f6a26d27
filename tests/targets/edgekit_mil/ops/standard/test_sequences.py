from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.helper import make_node

from edgekit.errors import UnsupportedOpsError

X = np.arange(20, dtype=np.float32).reshape(5, 4)


def test_inserted_erased_and_read(graph_agrees):
    nodes = [
        make_node("SequenceConstruct", ["x", "w"], ["two"]),
        make_node("SequenceInsert", ["two", "v", "first"], ["three"]),
        make_node("SequenceErase", ["three", "last"], ["left"]),
        make_node("SequenceAt", ["left", "last"], ["y"]),
        make_node("SequenceLength", ["left"], ["n"]),
    ]
    feeds = {"x": X, "w": X + 1, "v": X * 2}
    constants = {"first": np.array(0), "last": np.array(-1)}
    graph_agrees(nodes, feeds, {"y": "float32", "n": "int64"}, constants)


@pytest.mark.parametrize("split", [None, np.array(2), np.array([1, 4])])
@pytest.mark.parametrize("new_axis", [0, 1])
def test_split_and_joined_again(graph_agrees, split, new_axis):
    inputs = ["x"] if split is None else ["x", "split"]
    keepdims = 0 if split is None else 1
    joined = [make_node("ConcatFromSequence", ["parts"], ["y"], axis=0, new_axis=new_axis)]
    if keepdims:  # parts of different sizes cannot be stacked
        joined = [make_node("ConcatFromSequence", ["parts"], ["y"], axis=0)]
    nodes = [make_node("SplitToSequence", inputs, ["parts"], axis=0, keepdims=keepdims), *joined]
    graph_agrees(nodes, {"x": X}, {"y": "float32"}, {} if split is None else {"split": split})


def test_optional_is_what_it_holds(graph_agrees):
    nodes = [
        make_node("Optional", ["x"], ["o"]),
        make_node("OptionalHasElement", ["o"], ["has"]),
        make_node("OptionalGetElement", ["o"], ["y"]),
    ]
    graph_agrees(nodes, {"x": X}, {"has": "bool", "y": "float32"})


def test_position_computed_at_run_time_is_refused(convert_graph):
    nodes = [make_node("SequenceConstruct", ["x"], ["s"]), make_node("SequenceAt", ["s", "p"], ["y"])]
    with pytest.raises(UnsupportedOpsError, match="the position is computed at run time"):
        convert_graph(nodes, {"x": X, "p": np.array(0)}, {"y": "float32"})


def test_position_outside_is_refused(convert_graph):
    nodes = [make_node("SequenceConstruct", ["x"], ["s"]), make_node("SequenceAt", ["s", "p"], ["y"])]
    with pytest.raises(UnsupportedOpsError, match="position 3 in a sequence of 1"):
        convert_graph(nodes, {"x": X}, {"y": "float32"}, {"p": np.array(3)})


def test_sequence_as_an_input_is_refused(tmp_path):
    import edgekit_coreml

    sequence = onnx.helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph(
        [make_node("SequenceLength", ["s"], ["n"])],
        "length",
        [sequence],
        [onnx.helper.make_tensor_value_info("n", onnx.TensorProto.INT64, [])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(UnsupportedOpsError, match="'s'"):
        edgekit_coreml.convert(model, tmp_path / "model")
