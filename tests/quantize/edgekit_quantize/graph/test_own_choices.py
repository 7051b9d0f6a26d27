"""Decoders whose choices are looked up and lead to the next one, beside graphs that choose and go on otherwise."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from edgekit_quantize.graph.own_choices import own_choices

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
CONSTANTS = {
    "table": np.ones((5, 4), np.float32),
    "out": np.ones((4, 5), np.float32),
    "depth": np.array(5),
    "onoff": np.array([0, 1], np.float32),
    "yes": np.array(True),
    "start": np.array([2]),
    "one": np.array([1]),
    "two": np.array([2]),
    "along": np.array([1]),
}

STEPS = """g (float[1, 4] x) => (float[1, 5] z) {
    s = MatMul(x, out)  a = ArgMax <axis = 1, keepdims = 0> (s)
    e = Gather(table, a)  h = Tanh(e)  t = MatMul(h, out)  b = ArgMax <axis = 1, keepdims = 0> (t)
    f = Gather(table, b)  i = Tanh(f)  z = MatMul(i, out) }"""
ONE_HOT = """g (float[1, 4] x) => (int64[1] b) {
    s = MatMul(x, out)  a = ArgMax <axis = 1, keepdims = 0> (s)
    e = OneHot(a, depth, onoff)  m = MatMul(e, table)  h = Relu(m)  t = MatMul(h, out)
    b = ArgMax <axis = 1, keepdims = 0> (t) }"""
GREATEST = """g (float[1, 4] x) => (int64[1] b) {
    s = MatMul(x, out)  most, a = TopK(s, one)  c = Squeeze(a, along)
    e = Gather(table, c)  h = Relu(e)  t = MatMul(h, out)  top, b = TopK <axis = 1>(t, one) }"""
GREATEST_TWO = GREATEST.replace("(s, one)", "(s, two)").replace("Squeeze(a, along)", "ReduceMin <keepdims = 0> (a)")
LEAST = GREATEST.replace("TopK(s", "TopK <largest = 0> (s")
HARDMAX = """g (float[1, 4] x) => (float[1, 5] b) {
    s = MatMul(x, out)  a = Hardmax(s)  m = MatMul(a, table)  h = Relu(m)  t = MatMul(h, out)  b = Hardmax(t) }"""
CODES_BY_HARDMAX = """g (float[1, 4] x) => (float[1, 5] a, int64[1] b) {
    s = MatMul(x, out)  a = Hardmax(s)
    e = MatMul(a, table)  rest = Sub(x, e)  t = MatMul(rest, out)  b = ArgMax <axis = 1, keepdims = 0> (t) }"""
CODEBOOKS = """g (float[1, 4] x) => (int64[1] a, int64[1] b) {
    s = MatMul(x, out)  a = ArgMax <axis = 1, keepdims = 0> (s)
    e = Gather(table, a)  rest = Sub(x, e)  t = MatMul(rest, out)  b = ArgMax <axis = 1, keepdims = 0> (t) }"""
LAST_TOKEN = """g (float[1, 4, 4] x, int64[1, 4] ids) => (float[1, 5] z) {
    a = ArgMax <axis = 1, keepdims = 0> (ids)  e = Gather <axis = 1> (x, a)  h = Tanh(e)  z = MatMul(h, out) }"""
LOOP = """g (float[1, 4] x, int64 n) => (float[1, 4] last) {
    token, last = Loop <body = each (int64 i, bool go, int64[1] before, float[1, 4] h) =>
        (bool on, int64[1] chosen, float[1, 4] k) {
        e = Gather(table, before)  m = Add(h, e)  k = Tanh(m)  s = MatMul(k, out)
        chosen = ArgMax <axis = 1, keepdims = 0> (s)  on = Identity(go) }> (n, yes, start, x) }"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (STEPS, ["a", "b"]),
        (ONE_HOT, ["a", "b"]),
        (LOOP, ["chosen"]),
        (GREATEST, ["a", "b"]),
        (GREATEST_TWO, []),
        (LEAST, []),
        (HARDMAX, ["a", "b"]),
        (CODES_BY_HARDMAX, []),
        (CODEBOOKS, []),  # a quantizer of vectors: what is left over goes on by a difference
        (LAST_TOKEN, []),  # chooses where to look, once
    ],
    ids=[
        *("steps", "one hot", "loop", "the greatest", "the greatest two", "the least", "Hardmax"),
        *("codebooks by Hardmax", "codebooks", "last token"),
    ],
)
def test_choices_that_a_decoder_goes_on_with(text: str, found: list[str]) -> None:
    proto = onnx.parser.parse_model(HEAD + text)
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in CONSTANTS.items())
    assert own_choices(ir.from_proto(proto).graph) == found
