from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import openvino as ov
import pytest

from edgekit.execution.equivalence import Equivalence
from edgekit.graph.simplification.size_arithmetic import widen_sizes
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

REPEATED = """g (float[1, N, 6] x) => (float[1, M, 6] y) {
    s = Shape (x)
    t = Cast <to = 6> (s)
    b = Slice (t, zero, one)
    n = Slice (t, one, two)
    c = Slice (t, two, three)
    m = Mul (n, twice)
    all = Concat <axis = 0> (b, m, c)
    new = Cast <to = 7> (all)
    u = Unsqueeze (x, two)
    r = Tile (u, counts)
    y = Reshape (r, new)
}"""
"""What tf2onnx makes of Keras' nearest upsampling."""
CONSTANTS = {
    "zero": np.int64([0]),
    "one": np.int64([1]),
    "two": np.int64([2]),
    "three": np.int64([3]),
    "twice": np.int32([2]),
    "counts": np.int64([1, 1, 2, 1]),
}


def types(model: Model) -> set[ir.DataType | None]:
    return {value.dtype for node in model.graph for value in node.outputs}


def widened(onnx_model: OnnxModel, graph: str, **constants: np.ndarray) -> tuple[Model, Model]:
    proto = onnx_model(graph, **constants)
    before = infer_shapes(Model(ir.from_proto(proto)), strict=False)
    graph_model = before.graph_model.clone()
    widen_sizes(graph_model)
    return before, infer_shapes(before.with_graph(graph_model))


def test_sizes_are_computed_in_64_bits(onnx_model: OnnxModel) -> None:
    before, after = widened(onnx_model, REPEATED, **CONSTANTS)
    assert ir.DataType.INT32 in types(before)
    assert ir.DataType.INT32 not in types(after)
    assert [node.op_type for node in after.graph].count("Cast") == 0
    assert Equivalence(before).difference(after) is None


def test_what_casts_sizes_to_other_numbers_still_does(onnx_model: OnnxModel) -> None:
    graph = """g (float[1, N, 6] x) => (float[1, N, 6] y, int32 n) {
        s = Shape (x) t = Cast <to = 6> (s) p = Gather (t, one) q = Mul (p, twice) f = Cast <to = 1> (q)
        y = Div (x, f) z = Cast <to = 7> (q) n = Cast <to = 6> (z)
    }"""
    before, after = widened(onnx_model, graph, one=np.int64(1), twice=np.int32(2))
    (cast, last) = (node for node in after.graph if node.op_type == "Cast")
    assert (cast.inputs[0].dtype, last.outputs[0].dtype) == (ir.DataType.INT64, ir.DataType.INT32)
    assert Equivalence(before).difference(after) is None


@pytest.mark.parametrize(
    "graph",
    [
        # an input of 32 bits; an operator that is none of theirs; an output of the model
        "g (float[N] x, int32[1] i) => (float[N] y) { s = Shape(x) t = Cast<to = 6>(s) a = Add(t, i) "
        "f = Cast<to = 1>(a) y = Div(x, f) }",
        "g (float[N] x) => (float[N] y) { s = Shape(x) t = Cast<to = 6>(s) q = Mod(t, t) f = Cast<to = 1>(q) "
        "y = Div(x, f) }",
        "g (float[N] x) => (int32[1] t) { s = Shape(x) t = Cast<to = 6>(s) }",
        # numbers that are no sizes
        "g (float[N] x) => (int64[N] y) { t = Cast<to = 6>(x) a = Add(t, t) y = Cast<to = 7>(a) }",
    ],
)
def test_other_numbers_of_32_bits_stay(onnx_model: OnnxModel, graph: str) -> None:
    before, after = widened(onnx_model, graph)
    assert [node.op_type for node in after.graph] == [node.op_type for node in before.graph]
    assert types(after) == types(before)


UPSAMPLED = """g (float[1, 6, H, W] x) => (float[1, A, B, 6] y) {
    e = Unsqueeze (x, three)
    r = Tile (e, counts)
    v = Transpose <perm = [0, 2, 3, 4, 1]> (r)
    s = Shape (x) t = Cast <to = 6> (s)
    h = Slice (t, two, three) h2 = Mul (h, twice) w = Slice (t, three, four)
    b = Slice (t, zero, one) c = Slice (t, one, two)
    n = Concat <axis = 0> (b, h2, w, c) n2 = Cast <to = 7> (n)
    p = Reshape (v, n2)
    s2 = Shape (p) t2 = Cast <to = 6> (s2)
    k = Slice (t2, zero, two) w1 = Slice (t2, two, three) w2 = Mul (w1, twice) c2 = Slice (t2, three, four)
    m = Concat <axis = 0> (k, w2, c2) m2 = Cast <to = 7> (m)
    e2 = Unsqueeze (p, three) r2 = Tile (e2, counts)
    y = Reshape (r2, m2)
}"""


def test_openvino_computes_the_same_of_free_dimensions(onnx_model: OnnxModel) -> None:
    constants = {**CONSTANTS, "four": np.int64([4]), "counts": np.int64([1, 1, 1, 2, 1])}
    _, after = widened(onnx_model, UPSAMPLED, **constants)
    core = ov.Core()
    network = core.read_model(after.proto().SerializeToString())
    x = np.random.default_rng(0).standard_normal((1, 6, 3, 5)).astype(np.float32)
    (y,) = core.compile_model(network, "CPU")([x]).values()
    np.testing.assert_array_equal(y, x.repeat(2, 2).repeat(2, 3).transpose(0, 2, 3, 1))
