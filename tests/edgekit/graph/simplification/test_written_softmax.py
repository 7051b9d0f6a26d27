"""Softmax as JAX writes it out, and what looks like it."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgekit.features.written_softmax import written_softmax
from edgekit.graph.simplification.written_softmax import compute_softmax_at_once

HEAD = '<ir_version: 9, opset_import: ["": 17]> g (float[4, 3, 5] x) => (float[4, 3, 5] y)'
LISTS = """<int64[1] last = {2}, int64[1] middle = {1}, int64[3] rows = {4, 3, 1}, int64[3] all = {4, 3, 5},
    float low = {-1e30}>"""
JAX = """{
    m = ReduceMax <axes = [2], keepdims = 0> (x)
    bounded = Max (low, m)
    column = Reshape (bounded, rows)
    wide = Expand (column, all)
    z = Sub (x, wide)
    e = Exp (z)
    sum = ReduceSum <keepdims = 0> (e, last)
    sums = Reshape (sum, rows)
    total = Expand (sums, all)
    y = Div (e, total)
}"""
SHORT = """{
    m = ReduceMax <axes = [-1]> (x) z = Sub (x, m)
    e = Exp (z) s = ReduceSum (e, last) i = Reciprocal (s) y = Mul (e, i)
}"""
LOGARITHM = (
    "{ m = ReduceMax <axes = [1]> (x) z = Sub (x, m) e = Exp (z) s = ReduceSum (e, middle) l = Log (s) y = Sub (z, l) }"
)


def model_of(body: str) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(f"{HEAD} {LISTS} {body}")
    return onnx.shape_inference.infer_shapes(proto)


@pytest.mark.parametrize(
    ("body", "operator", "axis"),
    [(JAX, "Softmax", 2), (SHORT, "Softmax", 2), (LOGARITHM, "LogSoftmax", 1)],
    ids=["jax", "reciprocal", "logarithm"],
)
def test_it_is_one_operator(body: str, operator: str, axis: int) -> None:
    proto = model_of(body)
    model = ir.from_proto(proto)
    assert compute_softmax_at_once(model)
    RemoveUnusedNodesPass()(model)
    (node,) = model.graph
    assert (node.op_type, node.attributes["axis"].as_int()) == (operator, axis)
    feeds = {"x": np.random.default_rng(0).normal(0, 30, (4, 3, 5)).astype(np.float32)}
    found, expected = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
        for each in (ir.to_proto(model), proto)
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize(
    "body",
    [
        "{ e = Exp (x) s = ReduceSum (e, last) y = Div (e, s) }",
        "{ m = ReduceMin <axes = [2]> (x) z = Sub (x, m) e = Exp (z) s = ReduceSum (e, last) y = Div (e, s) }",
    ],
    ids=["nothing", "the smallest"],
)
def test_what_overflows_stays_but_is_told(body: str) -> None:
    model = ir.from_proto(model_of(body))
    assert not compute_softmax_at_once(model)
    written = written_softmax(list(model.graph)[-1])
    assert written is not None
    assert (written.op_type, written.axis, written.is_shifted) == ("Softmax", 2, False)


def test_exponentials_that_are_read_elsewhere_stay() -> None:
    body = SHORT.replace("y = Mul (e, i)", "p = Mul (e, i) y = Add (p, e)")
    assert not compute_softmax_at_once(ir.from_proto(model_of(body)))


@pytest.mark.parametrize(
    "body",
    [
        "{ e = Exp (x) s = ReduceSum <keepdims = 0> (x, last) r = Reshape (s, rows) y = Div (e, r) }",
        "{ e = Exp (x) s = ReduceSum <noop_with_empty_axes = 0> (e) y = Div (e, s) }",
        "{ e = Exp (x) s = ReduceMax <axes = [2]> (e) y = Div (e, s) }",
        "{ e = Exp (x) s = ReduceSum (e, last) y = Div (s, e) }",
        "{ e = Exp (x) s = ReduceSum (e, last) l = Log (s) y = Sub (e, l) }",
        "{ e = Sqrt (x) s = ReduceSum (e, last) y = Div (e, s) }",
    ],
    ids=["another sum", "all axes", "greatest", "turned round", "another logarithm", "roots"],
)
def test_what_is_none(body: str) -> None:
    model = ir.from_proto(model_of(body))
    assert written_softmax(list(model.graph)[-1]) is None


@pytest.mark.parametrize(("rows", "is_one"), [(1, True), (5, False)])
def test_sums_of_other_rows(rows: int, is_one: bool) -> None:
    text = f"""<ir_version: 9, opset_import: ["": 17]> g (float[{rows}, 5] x) => (float[{rows}, 5] y)
        <int64[1] last = {{1}}> {{ e = Exp (x) s = ReduceSum <keepdims = 0> (e, last) y = Div (e, s) }}"""
    model = ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)))
    assert (written_softmax(list(model.graph)[-1]) is not None) == is_one
