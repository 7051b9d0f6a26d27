"""Loops whose end is computed: OpenVINO's frontend takes them once each state is made by a node of the body."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import openvino
import pytest

import edgekit
import edgekit_openvino
from edgekit.errors import UnsupportedOpsError
from edgekit.model import Model
from edgekit_openvino.frontend import convert_model

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


NESTED = """<ir_version: 8, opset_import: ["" : 17]>
g (int64 rows, int64 columns, bool go, float[1] x) => (float[1] y) <float[1] one = {1}, float[1] three = {3}> {
  y = Loop (rows, go, x) <body = outer (int64 i, bool on, float[1] s) => (bool still, float[1] t) {
    row = Loop (columns, on, s) <body = inner (int64 j, bool within, float[1] a) => (bool more, float[1] b) {
      b = Add (a, three) more = Identity (within)
    }>
    t = Add (row, one) still = Identity (on)
  }>
}"""


def test_a_loop_in_a_loop_that_starts_by_the_condition_of_the_other(tmp_path: Path) -> None:
    """The frontend loses the condition of a body that passes it on and reads it besides."""
    model = onnx.parser.parse_model(NESTED)
    onnx.save(model, tmp_path / "loop.onnx")
    with pytest.raises(Exception, match="undeclared parameters"):
        openvino.Core().compile_model(tmp_path / "loop.onnx", "CPU")

    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))

    for rows, columns, go, expected in ((3, 2, True, 21), (2, 0, True, 2), (0, 3, True, 0), (3, 2, False, 0)):
        feeds = {"rows": np.int64(rows), "columns": np.int64(columns), "go": np.bool_(go), "x": np.zeros(1, np.float32)}
        np.testing.assert_array_equal(runner.run(feeds)["y"], np.float32([expected]))


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


BACKTRACKING = """<ir_version: 8, opset_import: ["" : 17]>
g (float[3, 4] x) => (float[A, B] y) <int64 steps = {3}, bool go = {1}, int64 one = {1}> {
  none = SequenceEmpty <dtype = 1> ()
  first = ReduceMax <axes = [0], keepdims = 0> (x)
  last, kept = Loop (steps, go, first, none) <body = forward (int64 i, bool on, float[P] s, seq(float[Q]) l)
    => (bool on_and_on, float[R] t, seq(float[S]) m) {
      on_and_on = Identity (on) row = Gather (x, i) t = Add (s, row) m = SequenceInsert (l, t)
    }>
  start = SequenceConstruct (last)
  count = SequenceLength (kept)
  end, found = Loop (count, go, last, start) <body = backward (int64 j, bool off, float[U] u, seq(float[V]) v)
    => (bool off_and_on, float[W] w, seq(float[Z]) z) {
      off_and_on = Identity (off) length = SequenceLength (kept) behind = Sub (length, one) place = Sub (behind, j)
      back = SequenceAt (kept, place) w = Sub (back, u) z = SequenceInsert (v, w)
    }>
  y = ConcatFromSequence <axis = 0, new_axis = 1> (found)
}"""


def test_a_loop_over_the_tensors_that_another_one_has_put_aside(tmp_path: Path) -> None:
    """As in Viterbi's algorithm: the best path is found from behind. Names of sizes in the bodies tell nothing."""
    model = onnx.parser.parse_model(BACKTRACKING)
    x = np.random.default_rng(5).integers(-9, 9, (3, 4)).astype(np.float32)
    forward = x.max(0) + x.cumsum(0)
    rows = [forward[-1]]
    for kept in forward[::-1]:
        rows.append(kept - rows[-1])

    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))

    np.testing.assert_array_equal(runner.run({"x": x})["y"], np.stack(rows))


REPEATING = """<ir_version: 8, opset_import: ["" : 17]>
g (float[3, 2] x, int64[3] times) => (float[M, 2] y) <int64 steps = {STEPS}, bool go = {1}, int64[1] two = {2}> {
  none = SequenceEmpty <dtype = 1> ()
  found = Loop (STEPS_OF, go, none) <body = body (int64 i, bool on, seq(float[A, B]) l)
    => (bool on_and_on, seq(float[C, D]) m) {
      on_and_on = Identity (on) row = Gather (x, i) axis = Constant <value = int64[1] {0}> () one = Unsqueeze (i, axis)
      count = Gather (times, one) size = Concat <axis = 0> (count, two) rows = Expand (row, size)
      m = SequenceInsert (l, rows)
    }>
  y = ConcatFromSequence <axis = 0> (found)
}"""


def test_tensors_of_several_sizes_that_a_loop_adds_to_a_list(tmp_path: Path) -> None:
    """A length regulator repeats each row as often as it is told."""
    model = onnx.parser.parse_model(REPEATING.replace("STEPS_OF", "steps").replace("STEPS", "3"))
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(3, 2), "times": np.array([3, 1, 2])}
    expected = np.repeat(feeds["x"], feeds["times"], 0)
    with pytest.raises(UnsupportedOpsError, match="adds to a sequence the size of the last one"):
        convert_model(Model(ir.from_proto(model)))  # alone OpenVINO gives six rows of others, or ends the process

    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))

    np.testing.assert_array_equal(runner.run(feeds)["y"], expected)


def test_tensors_of_several_sizes_in_a_loop_whose_turns_are_not_known_are_refused(tmp_path: Path) -> None:
    text = REPEATING.replace("STEPS_OF", "turns").replace("STEPS", "3")
    text = text.replace("int64[3] times)", "int64[3] times, int64 turns)")
    with pytest.raises(UnsupportedOpsError, match="adds to a sequence the size of the last one"):
        edgekit_openvino.convert(onnx.parser.parse_model(text), tmp_path / "model")


def test_two_tensors_that_a_turn_adds_to_a_list(tmp_path: Path) -> None:
    text = REPEATING.replace("STEPS_OF", "steps").replace("STEPS", "3")
    text = text.replace("rows = Expand (row, size)", "rows = Neg (row)")
    text = text.replace("m = SequenceInsert (l, rows)", "h = SequenceInsert (l, row) m = SequenceInsert (h, rows)")
    model = onnx.parser.parse_model(text.replace("<axis = 0> (found)", "<axis = 0, new_axis = 1> (found)"))
    x, times = np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(3, np.int64)
    expected = np.stack([x, -x], 1).reshape(6, 2)
    with pytest.raises(UnsupportedOpsError, match="keeps only one of the tensors that an iteration adds"):
        convert_model(Model(ir.from_proto(model)))  # alone OpenVINO gives three rows, or ends the process

    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))

    np.testing.assert_array_equal(runner.run({"x": x, "times": times})["y"], expected)
