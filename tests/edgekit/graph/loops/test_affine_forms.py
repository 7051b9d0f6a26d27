from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.loops.affine_forms import Forms
from edgekit.graph.loops.values import constant_of

GRAPH = """<ir_version: 9, opset_import: ["": 17]>
g (float[2, 3] x, float[2, 2] h) => (float[2, ?] y)
    <float[3, 4] w, float[2, 4] r, float[5, 4] wr, float[4] b, float[2, 2] ones = {{1, 1, 1, 1}}, float one = {{1}},
     int64[1] from = {{1}}, int64[1] to = {{9}}, int64[1] axis = {{1}}, int64[2] sizes = {{1, 3}},
     int64[2] corner = {{0, 1}}, int64[2] far = {{2147483647, 3}}, int64[2] axes = {{0, 1}},
     int64[2] second = {{1, 1}}> {{ {nodes} }}"""
SHAPES = {"w": (3, 4), "r": (2, 4), "wr": (5, 4), "b": (4,)}


def model_of(nodes: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(GRAPH.format(nodes=nodes))
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in SHAPES]
    rng = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.uniform(-1, 1, shape).astype(np.float32), name)
        for name, shape in SHAPES.items()
    ]
    del model.graph.initializer[:]
    model.graph.initializer.extend([*kept, *weights])
    return model


@pytest.mark.parametrize(
    "nodes",
    [
        "y = MatMul (x, w)",
        "y = Gemm (x, w, b)",
        "t = Transpose <perm = [1, 0]> (w)  y = Gemm <transB = 1> (x, t, b)",
        "m = MatMul (x, w)  n = MatMul (h, r)  s = Add (m, n)  y = Add (b, s)",
        "m = MatMul (x, w)  s = Add (m, one)  y = Slice (s, from, to, axis)",
        "m = MatMul (x, w)  y = Slice (m, corner, far, axes)",
        "m = MatMul (x, w)  y = Slice (m, corner, far)",
        "m = Gemm (x, w, b)  left, y = Split <axis = -1> (m, sizes)",
        "left, part = Split <axis = 1> (w)  y = MatMul (x, part)",
        "i = Identity (h)  k = Mul (ones, i)  m = MatMul (k, r)  y = Concat <axis = 1> (m, m)",
        "both = Concat <axis = -1> (x, h)  y = Gemm (both, wr, b)",
        "square = Concat <axis = 0> (r, r)  m = Gemm (x, w, b)  n = MatMul (m, square)  y = Add (n, b)",
    ],
)
def test_a_form_computes_what_the_nodes_do(nodes: str) -> None:
    proto = model_of(nodes)
    model = ir.from_proto(proto)
    x, h = model.graph.inputs
    form = Forms({x: 3, h: 2}, constant_of, 17).form(model.graph.outputs[0])
    assert form is not None
    rng = np.random.default_rng(1)
    feeds = {"x": rng.uniform(-1, 1, (2, 3)).astype(np.float32), "h": rng.uniform(-1, 1, (2, 2)).astype(np.float32)}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, feeds)
    found = sum((feeds[value.name] @ matrix for value, matrix in form.weights.items()), np.zeros(1)) + form.bias
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param("m = MatMul (x, w)  y = Tanh (m)", id="a function"),
        pytest.param("m = MatMul (x, w)  y = Mul (m, b)", id="a product of columns"),
        pytest.param("y = Gemm <alpha = 2.0> (x, w)", id="a scaled product"),
        pytest.param("m = MatMul (x, w)  y, other = Split <axis = 0> (m)", id="rows"),
        pytest.param("m = MatMul (x, w)  y = Slice (m, second, far, axes)", id="without the first row"),
        pytest.param("m = MatMul (x, w)  y = Slice (m, corner, sizes, axes)", id="the first row"),
    ],
)
def test_other_values_have_no_form(nodes: str) -> None:
    model = ir.from_proto(model_of(nodes))
    x, h = model.graph.inputs
    assert Forms({x: 3, h: 2}, constant_of, 17).form(model.graph.outputs[0]) is None
