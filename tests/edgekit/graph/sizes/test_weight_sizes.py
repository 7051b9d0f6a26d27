"""Sizes of inputs that weights tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.errors import InputError
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.graph.sizes.weight_sizes import WeightSize, tell_sizes_by_weights
from edgekit.model import Model
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("graph", "weights", "expected"),
    [
        ("g (float[N, C, H, W] x) => (y) { y = Conv <group = 2> (x, w) }", floats(4, 3, 1, 1), "x: float32 N×6×H×W"),
        ("g (float[N, C, L] x) => (y) { y = ConvTranspose (x, w) }", floats(4, 3, 1), "x: float32 N×4×L"),
        ("g (float[N, H, W, C] x) => (y) { t = Transpose <perm = [0, 3, 1, 2]> (x) s = Div (t, two) y = Conv (s, w) }",
         floats(4, 3, 1, 1), "x: float32 N×H×W×3"),
        ("g (float[N, K] x) => (y) { y = MatMul (x, w) }", floats(5, 3), "x: float32 N×5"),
        ("g (float[K, N] x) => (y) { y = MatMul (w, x) }", floats(5, 3), "x: float32 3×N"),
        ("g (float[N, K] x) => (y) { y = Gemm <transB = 1> (x, w) }", floats(5, 3), "x: float32 N×3"),
        ("g (float[T, N, K] x) => (y) { y, h = RNN <hidden_size = 5> (x, w, r) }", floats(1, 5, 3), "x: float32 T×N×3"),
        ("g (float[N, C, L] x) => (y) { y = InstanceNormalization (x, w, w) }", floats(7), "x: float32 N×7×L"),
    ],
)  # fmt: skip
def test_what_no_other_size_runs_with(onnx_file: Callable[..., Path], graph, weights, expected) -> None:
    more = {"two": np.array(2, np.float32), "r": floats(1, 5, 5)}
    result = Load()(onnx_file(graph, w=weights, **{name: array for name, array in more.items() if f"{name})" in graph}))
    assert [str(spec) for spec in result.model.inputs] == [expected]
    assert len(result.record["sizes_by_weights"]) == 1


def test_a_name_is_replaced_wherever_it_stands_for_the_same(onnx_file: Callable[..., Path]) -> None:
    graph = "g (float[N, K] x, float[N, K] z) => (float[N, M] y, float[N, K] s) { y = MatMul (x, w) s = Add (x, z) }"
    model = Load()(onnx_file(graph, w=floats(5, 3))).model
    assert [str(spec) for spec in (*model.inputs, *model.outputs)] == [
        "x: float32 N×5", "z: float32 N×5", "y: float32 N×M", "s: float32 N×5"
    ]  # fmt: skip


def test_a_name_that_stands_for_other_sizes_too_is_kept_there(onnx_file: Callable[..., Path]) -> None:
    graph = "g (float[D, D] x, float[D] z) => (y) { m = MatMul (x, w) s = ReduceSum (z) y = Add (m, s) }"
    model = Load()(onnx_file(graph, w=floats(5, 3))).model
    assert [str(spec) for spec in model.inputs] == ["x: float32 D×5", "z: float32 D"]


def test_what_is_computed_in_between_tells_nothing(onnx_file: Callable[..., Path]) -> None:
    graph = "g (float[N, K] x) => (y) { c = Concat <axis = 1> (x, x) y = MatMul (c, w) }"
    model = Load()(onnx_file(graph, w=floats(6, 3))).model
    assert [str(spec) for spec in model.inputs] == ["x: float32 N×K"]


def test_caches_are_as_wide_as_heads(onnx_file: Callable[..., Path]) -> None:
    """onnxruntime-genai leaves their last axis open; the queries' width follows from a product."""
    graph = """<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]>
    g (float[N, S, 8] x, int32[N] last, int32 total, float[N, 1, P, W] k, float[N, 1, P, W] v) => (y) {
        q = MatMul (x, w)
        y, keys, values = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1>
            (q, , , k, v, last, total)
    }"""
    proto = onnx.parser.parse_model(graph)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(floats(8, 64), "w"))
    model = Model(ir.from_proto(proto))
    assert tell_sizes_by_weights(model) == [WeightSize("k", 3, 16, "W")]
    assert [str(value.shape) for value in model.graph.inputs[-2:]] == ["[N,1,P,16]"] * 2


CHANNELS = "g (float[N, channels, H, W] x) => (y) { y = Conv (x, w) }"


def test_a_size_that_the_weights_tell_may_be_asked_for(onnx_file: Callable[..., Path]) -> None:
    """Projects and bundles of the time before have it in their sizes."""
    model = Load()(onnx_file(CHANNELS, w=floats(4, 3, 1, 1))).model
    fixed = FixShapes(ShapeRequest({"channels": 3, "N": 1}))(model).model
    assert [str(spec) for spec in fixed.inputs] == ["x: float32 1×3×H×W"]
    with pytest.raises(InputError) as caught:
        FixShapes(ShapeRequest({"channels": 4}))(model)
    assert str(caught.value) == (
        "--dim channels=4: the weights take another size\nexpected: 3\nhint: leave it out: no other size runs"
    )


def test_caches_of_two_numbers_in_a_byte_are_not_as_wide_as_heads() -> None:
    graph = """<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]>
    g (float[N, S, 64] q, int32[N] last, int32 total, uint8[N, 1, P, W] k, uint8[N, 1, P, W] v) => (y) {
        y, keys, values = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1, kv_cache_bit_width = 4>
            (q, , , k, v, last, total)
    }"""
    assert tell_sizes_by_weights(Model(ir.from_proto(onnx.parser.parse_model(graph)))) == []


@pytest.mark.parametrize("nodes", ["y = Conv (x)", "y = MatMul (x)", "s = Div (x) y = MatMul (s, w)"])
def test_broken_nodes_are_told_of_where_the_file_is_checked(onnx_file: Callable[..., Path], nodes: str) -> None:
    weights = {"w": floats(5, 3)} if "w" in nodes else {}
    with pytest.raises(InputError, match="breaks the rules of ONNX"):
        Load()(onnx_file(f"g (float[N, K] x) => (float[N, M] y) {{ {nodes} }}", **weights))
