"""Loops whose end is computed: OpenVINO's frontend takes them once each state is made by a node of the body."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest

import edgekit
import edgekit_openvino

LOOP = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, float[2] step) => (float[2] y) <int64 most = {9}, bool go = {1}, float limit = {4}> {
  y, kept = Loop(most, go, x, step) <body = body (int64 i, bool on, float[2] s, float[2] d)
    => (bool more, float[2] t, float[2] d) {
      t = Add(s, d) m = ReduceMax<keepdims = 0>(t) more = Less(m, limit)
    }>
}"""


def test_a_state_that_is_handed_on_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "loop.onnx"
    onnx.save(onnx.parser.parse_model(LOOP), file)
    with pytest.raises(Exception, match="canonical inputs size"):
        openvino.Core().read_model(file)

    bundle = edgekit.package(file, "intel-cpu", tmp_path / "bundle", precision="float32")
    rewrites = [each["rewrite"] for stage in bundle.manifest["stages"] for each in stage["record"].get("rewrites", ())]
    assert rewrites == ["loop with explicit states"]
    # by hand: 0 + 1.5 goes on until the greater of the two is 4 or more
    found = edgekit.load(bundle)({"x": np.zeros(2, np.float32), "step": np.array([0.5, 1.5], np.float32)})
    np.testing.assert_array_equal(found["y"], np.array([1.5, 4.5], np.float32))


GROWING = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x) => (float[M] y) <int64 most = {9}, bool go = {1}, int64[1] begin = {0}, int64[1] one = {1},
  int64[1] far = {99}, int64 none = {0}> {
  empty = Slice (x, begin, begin)
  size = Size (x) goes = Greater (size, none)
  y, rest = Loop (most, goes, empty, x) <body = body (int64 i, bool on, float[0] s, float[R] d)
    => (bool more, float[T] t, float[Q] e) {
      first = Slice (d, begin, one) double = Add (first, first) t = Concat <axis = 0> (s, double)
      e = Slice (d, one, far) left = Size (e) more = Greater (left, none)
    }>
}"""


def test_a_list_that_is_empty_at_first_and_grows(tmp_path: Path) -> None:
    """TorchScript's exporter gives the list in the body the size that it starts with."""
    model = onnx.parser.parse_model(GROWING)
    onnx.save(model, tmp_path / "loop.onnx")
    with pytest.raises(Exception, match="canonical inputs size"):
        openvino.Core().read_model(tmp_path / "loop.onnx")

    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))

    for size in (1, 4, 7):
        x = np.arange(size, dtype=np.float32) + 1
        np.testing.assert_array_equal(runner.run({"x": x})["y"], 2 * x)
