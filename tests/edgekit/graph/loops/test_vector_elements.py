"""What is known of the elements of short lists."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest

from edgekit.graph.loops.values import Size
from edgekit.graph.loops.vector_elements import elements_of
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

SETUP = """
    <ir_version: 9, opset_import: ["": 16]>
    lists (float[N, 3, W] x, float[2] given, int64[K] open) => (int64 y)
    <int64[2] numbers = {5, 6}, int64[1] one = {1}, int64[1] two = {2}, int64[1] far = {9223372036854775807},
     int64[1] minus = {-1}, int64[1] zero = {0}, int64 last = {-1}, int64[2] turned = {2, 1}, float[1] third = {0.25}>
"""
N, W = "N", "W"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("v = Identity(numbers)", [5, 6]),
        ("v = Shape(x)", [N, 3, W]),
        ("v = Shape<start = 1>(x)", [3, W]),
        ("s = Shape(x) v = Gather(s, turned)", [W, 3]),
        ("s = Shape(x) g = Gather(s, last) v = Unsqueeze(g, zero)", [W]),
        ("s = Shape(x) v = Slice(s, zero, two)", [N, 3]),
        ("s = Shape(x) v = Slice(s, minus, far)", [W]),
        ("s = Shape(x) k = Slice(s, zero, one) v = Concat<axis = 0>(k, numbers, one)", [N, 5, 6, 1]),
        ("s = Shape(x) c = Cast<to = 6>(s) v = Cast<to = 7>(c)", [N, 3, W]),
        ("s = Shape(x) d = Mul(s, two) v = Slice(d, one, two)", [None]),
        ("v = Concat<axis = 0>(given, third)", [None, None, 0.25]),
        ("c = Cast<to = 7>(third) v = Concat<axis = 0>(c, one)", [None, 1]),
        ("v = Concat<axis = 0>(open, one)", None),
        ("v = Reshape(x, minus)", None),
        ("v = Identity(x)", None),
    ],
)
def test_elements(nodes, expected):
    proto = onnx.parser.parse_model(f"{SETUP} {{ {nodes} y = Size(v) }}")
    graph = infer_shapes(Model(ir.from_proto(proto)), strict=False).graph
    sizes = {N: Size(graph.inputs[0], 0), W: Size(graph.inputs[0], 2)}
    found = elements_of(graph[-1].inputs[0])
    assert found == (None if expected is None else [sizes.get(each, each) for each in expected])
