"""What a run counts: multiplications, elements and nodes, by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.search.work import OF_ELEMENT, OF_NODE, ROUNDS, work_of

PRODUCT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 4] x) => (float[N, 5] y) {
  m = MatMul(x, w)
  y = Relu(m)
}"""
LOOP = """<ir_version: 8, opset_import: ["" : 17]>
g (int64 n, bool c, float[1, 4] x) => (float[1, 4] y, float[K, 1, 4] all) {
  y, all = Loop(n, c, x) <body = b (int64 i, bool go, float[1, 4] s) => (bool on, float[1, 4] t, float[1, 4] u) {
    on = Identity(go)
    t = MatMul(s, w)
    u = Neg(t)
  }>
}"""
SCAN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4] x, float[T, 4] z) => (float[1, 4] y, float[T, 1, 4] all) {
  y, all = Scan<num_scan_inputs = 1, body = b (float[1, 4] s, float[4] r) => (float[1, 4] t, float[1, 4] u) {
    t = Add(s, r)
    u = MatMul(t, w)
  }>(x, z)
}"""


@pytest.mark.parametrize("rows", [1, 3, 700])
def test_multiplications_elements_and_nodes_count(parse: Callable[..., ir.Model], rows: int) -> None:
    model = parse(PRODUCT, w=np.ones((4, 5), np.float32))

    found = work_of(model, {"x": np.ones((rows, 4), np.float32)})

    assert found == rows * 4 * 5 + OF_ELEMENT * 2 * rows * 5 + 2 * OF_NODE


@pytest.mark.parametrize("rounds", [2, 9])
def test_the_body_of_a_loop_counts_as_often_as_it_runs(parse: Callable[..., ir.Model], rounds: int) -> None:
    model = parse(LOOP, w=np.ones((4, 4), np.float32))
    feeds = {"n": np.array(rounds), "c": np.array(True), "x": np.ones((1, 4), np.float32)}

    found = work_of(model, feeds)

    body = 3 * OF_NODE + OF_ELEMENT * (1 + 4 + 4) + 4 * 4
    assert found == OF_NODE + OF_ELEMENT * (4 + rounds * 4) + rounds * body


@pytest.mark.parametrize("rounds", [2, 9])
def test_the_body_of_a_scan_counts_as_often_as_it_runs(parse: Callable[..., ir.Model], rounds: int) -> None:
    model = parse(SCAN, w=np.ones((4, 4), np.float32))

    found = work_of(model, {"x": np.ones((1, 4), np.float32), "z": np.ones((rounds, 4), np.float32)})

    body = 2 * OF_NODE + OF_ELEMENT * (4 + 4) + 4 * 4
    assert found == OF_NODE + OF_ELEMENT * (4 + rounds * 4) + rounds * body


def test_a_loop_of_which_nothing_tells_is_taken_to_be_long(parse: Callable[..., ir.Model]) -> None:
    text = LOOP.replace(", float[K, 1, 4] all", "").replace("y, all = ", "y = ").replace(", float[1, 4] u)", ")")
    model = parse(text.replace("    u = Neg(t)\n", ""), w=np.ones((4, 4), np.float32))
    feeds = {"n": np.array(2), "c": np.array(True), "x": np.ones((1, 4), np.float32)}

    found = work_of(model, feeds)

    assert found == OF_NODE + OF_ELEMENT * 4 + ROUNDS * (2 * OF_NODE + OF_ELEMENT * (1 + 4) + 4 * 4)
