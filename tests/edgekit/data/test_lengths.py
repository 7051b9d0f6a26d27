"""Lengths at other sizes of open dimensions: no more steps than the sequence then has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.helper as helper
import onnx.parser
import pytest

import edgekit
from edgekit.data.lengths import Lengths
from edgekit.stages.load import Load

MASKED = """
<ir_version: 8, opset_import: ["": 17]>
g (float[batch, t, 2] x, int64[batch] count, int64[batch, t] ids) => (float[batch, t, 2] y)
<int64 zero = {0}, int64 one = {1}, int64 two = {1}, int64[1] first = {0}, int64[1] last = {-1}> {
    shape = Shape(x)
    steps = Gather(shape, two)
    places = Range(zero, steps, one)
    row = Unsqueeze(places, first)
    column = Unsqueeze(count, last)
    inside = Less(row, column)
    mask = Unsqueeze(inside, last)
    factor = Cast <to = 1>(mask)
    numbers = Cast <to = 1>(ids)
    more = Unsqueeze(numbers, last)
    masked = Mul(x, factor)
    y = Add(masked, more)
}
"""

GRAPH = """
<ir_version: 8, opset_import: ["": 18]>
g (float[n, 2] x, int64[2, e] edges, bool[e] kept) => (float[n, 2] y)
<int64 first = {0}, int64 second = {1}, int64[1] column = {1}> {
    source = Gather <axis = 0>(edges, first)
    places = Gather <axis = 0>(edges, second)
    both = TAKEN
    messages = Gather <axis = 0>(x, source)
    more = Unsqueeze(both, column)
    like = Shape(messages)
    target = Expand(more, like)
    y = ScatterElements <axis = 0, reduction = "add">(x, target, messages)
}
"""
"""Messages along the edges of a graph: both ends of each are places among the nodes."""


def packed_gru() -> onnx.ModelProto:
    """As PyTorch packs sequences: the longest first, and back in their order behind the layer."""
    rng = np.random.default_rng(3)
    shapes = {"w": (1, 9, 2), "r": (1, 9, 3), "b": (1, 18)}
    weights = [onnx.numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    weights.append(onnx.numpy_helper.from_array(np.array([3], np.int64), "all"))
    nodes = [
        helper.make_node("TopK", ["count", "all"], ["sorted", "order"], axis=0),
        helper.make_node("Gather", ["x", "order"], ["longest_first"], axis=1),
        helper.make_node("Cast", ["sorted"], ["lengths"], to=onnx.TensorProto.INT32),
        helper.make_node("GRU", ["longest_first", "w", "r", "b", "lengths"], ["steps", ""], hidden_size=3),
        helper.make_node("ReduceMean", ["steps"], ["y"], axes=[1], keepdims=0),
    ]
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["t", 3, 2]),
        helper.make_tensor_value_info("count", onnx.TensorProto.INT64, [3]),
    ]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("steps", [2, 5])
def test_lengths_may_be_the_whole_axis(steps: int, tmp_path: Path) -> None:
    onnx.save(packed_gru(), tmp_path / "packed.onnx")
    onnx.save(onnx.parser.parse_model(MASKED), tmp_path / "masked.onnx")
    packed, masked = (Lengths(Load()(tmp_path / name).model) for name in ("packed.onnx", "masked.onnx"))
    assert packed.below({"t": steps}) == {}
    assert packed.work_out({"t": steps}) == packed.below({"t": steps}) == {"count": steps + 1}
    assert masked.work_out({"t": steps, "batch": 3}) == {"count": steps + 1}


def test_sequences_of_lengths_are_verified_at_the_sizes_that_were_asked_for(tmp_path: Path) -> None:
    onnx.save(packed_gru(), tmp_path / "packed.onnx")
    rng = np.random.default_rng(5)
    (tmp_path / "samples").mkdir()
    for number in range(4):
        count = rng.integers(4, 6, 3)
        count[number % 3] = 6
        np.savez(
            tmp_path / "samples" / f"{number}.npz", x=rng.standard_normal((6, 3, 2)).astype(np.float32), count=count
        )
    bundle = edgekit.package(
        tmp_path / "packed.onnx",
        "onnxruntime",
        tmp_path / "bundle",
        data=tmp_path / "samples",
        quantize="none",
        dims={"t": "2..8"},
    )
    tried = [each["sizes"]["t"] for each in bundle.manifest["accuracy"]["sizes"]]
    assert {2, 8} <= set(tried)
    assert edgekit.verify(bundle.path) is not None


@pytest.mark.parametrize(
    "taken",
    [
        "Identity(places)",
        "Where(kept, places, source)",
        "GatherElements(places, places)",
        "Compress <axis = 0>(places, kept)",
    ],
)
def test_both_ends_of_an_edge_are_places_among_the_nodes(taken: str, tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(GRAPH.replace("TAKEN", taken)), tmp_path / "graph.onnx")
    lengths = Lengths(Load()(tmp_path / "graph.onnx").model)
    assert lengths.work_out({"n": 3, "e": 7}) == {"edges": 3}


def test_a_graph_network_is_verified_with_fewer_nodes_than_its_samples_have(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(GRAPH.replace("TAKEN", "Where(kept, places, source)")), tmp_path / "graph.onnx")
    rng = np.random.default_rng(5)
    (tmp_path / "samples").mkdir()
    for number in range(4):
        np.savez(
            tmp_path / "samples" / f"{number}.npz",
            x=rng.standard_normal((6, 2)).astype(np.float32),
            edges=np.concatenate([rng.integers(0, 6, (2, 8)), [[5], [5]]], axis=1),
            kept=rng.random(9) < 0.7,
        )
    bundle = edgekit.package(
        tmp_path / "graph.onnx",
        "onnxruntime",
        tmp_path / "bundle",
        data=tmp_path / "samples",
        quantize="none",
        dims={"n": "2..8", "e": "1..9"},
    )
    assert 2 in [each["sizes"]["n"] for each in bundle.manifest["accuracy"]["sizes"]]
