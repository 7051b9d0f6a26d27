"""Loops whose number of turns only a run tells: what they collect, add to and leave behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError
from edgekit.graph.loops.trip_counts import set_trip_counts

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def assert_agrees(
    text: str | onnx.ModelProto,
    every: Sequence[Mapping[str, Any]],
    folder: Path,
    *,
    counted: bool = False,
    **options: Any,
):
    """Asserts that one conversion agrees with ONNX Runtime on all feeds; ``counted``: after ``set_trip_counts``."""
    given = onnx.parser.parse_model(text) if isinstance(text, str) else text
    model = onnx.shape_inference.infer_shapes(given)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    if counted:
        graph_model = ir.from_proto(model)
        assert set_trip_counts(graph_model)
        model = ir.to_proto(graph_model)
    runner = edgekit_coreml.load(edgekit_coreml.convert(model, folder / "m", precision="float32", **options))
    for feeds in every:
        arrays = {name: np.asarray(value) for name, value in feeds.items()}
        results = runner.run(dict(arrays))
        for output, wanted in zip(session.get_outputs(), session.run(None, arrays), strict=True):
            assert results[output.name].dtype == wanted.dtype
            assert results[output.name].shape == wanted.shape
            np.testing.assert_allclose(results[output.name], wanted, rtol=1e-6, atol=1e-6)


GREEDY = """<ir_version: 8, opset_import: ["": 16]>
g (float[1, 3] x, int64 most) => (int64[T] ids, float[1, 3] h)
    <int64[0] none = {}, int64 endless = {9223372036854775807}, int64 zero = {0}, bool no = {0}, int64 one = {1},
    float[1, 3] grow = {1.5, 1.25, 3}, float high = {60}> {
    enter = Less (zero, most)
    ids, h, turns = Loop <body = b (int64 turn, bool go, int64[0] out, float[1, 3] s, int64 i)
        => (bool more, int64[K] longer, float[1, 3] s2, int64 i2) {
            s2 = Mul (s, grow)
            token = ArgMax <axis = 1, keepdims = 0> (s2)
            longer = Concat <axis = 0> (LIST)
            top = ReduceMax <keepdims = 0> (s2)
            ended = Greater (top, high)
            open = Not (ended)
            i2 = Add (i, one)
            asked = Cast <to = 9> (open)
            more = If (asked) <
                then_branch = t () => (bool a) { a = Less (i2, most) },
                else_branch = e () => (bool c) { c = Identity (no) }>
        }> (endless, enter, none, x, zero)
}"""
STARTS = [
    {"x": np.array([[1, 2, 3]], np.float32), "most": 0},
    {"x": np.array([[1, 2, 3]], np.float32), "most": 2},
    {"x": np.array([[1, 2, 3]], np.float32), "most": 9},
    {"x": np.array([[40, 2, 3]], np.float32), "most": 9},
    {"x": np.array([[40, 2, 3]], np.float32), "most": 1},
]


def test_a_greedy_decoder_as_torchscript_writes_it(tmp_path):
    assert_agrees(GREEDY.replace("LIST", "out, token"), STARTS, tmp_path, counted=True)


def test_a_list_that_a_slimmer_took_for_empty_is_the_last_token(tmp_path):
    assert_agrees(GREEDY.replace("LIST", "token"), STARTS, tmp_path, counted=True)


COUNTED = """<ir_version: 8, opset_import: ["": 16]>
g (float[5, 3] x, int64 n) => (float[A, 1, 3] rows) <int64[1] one = {1}, bool yes = {1}> {
    rows = Loop <body = b (int64[1] turn, bool go) => (bool on, float[1, 3] row) {
            row = Gather <axis = 0> (x, turn)
            on = Identity (go)
        }> (TURNS, yes)
}"""


@pytest.mark.parametrize("turns", ["n", "one"])
def test_the_number_of_a_turn_is_a_vector_where_the_body_declares_one(turns, tmp_path):
    """ONNX Runtime takes both, and tf2onnx writes crops of an image so."""
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    assert_agrees(COUNTED.replace("TURNS", turns), [{"x": x, "n": n} for n in (1, 3, 5)], tmp_path)


BACK = """<ir_version: 8, opset_import: ["": 16]>
g (int64[5] next, float[5] scores, int64 n) => (int64 k, int64 other) <int64 limit = {2}> {
    best = ArgMax <axis = 0, keepdims = 0> (scores)
    k = Loop <body = b (int64 turn, bool go, int64 at) => (bool on, int64 found) {
            found = Gather (next, at)
            on = Identity (go)
        }> (n, , best)
    early = Less (n, limit)
    other = If (early) <
        then_branch = t () => (int64 a) { a = ArgMax <axis = 0, keepdims = 0> (scores) },
        else_branch = e () => (int64 c) { c = Gather (next, k) }>
}"""


def test_a_place_that_a_loop_follows_back_begins_at_the_greatest_score(tmp_path):
    """The builder has two types for a scalar, one of which ArgMax gives alone."""
    scores = np.array([0, 1, 4, 3, 2], np.float32)
    every = [{"next": np.array([3, 0, 4, 1, 2]), "scores": scores, "n": n} for n in (0, 1, 3)]
    assert_agrees(BACK, every, tmp_path)


def test_a_loop_without_any_limit_is_refused(tmp_path):
    text = GREEDY.replace("LIST", "out, token").replace("a = Less (i2, most)", "a = Identity (open)")
    with pytest.raises(UnsupportedOpsError, match="collects outputs of a number of turns that is not known"):
        assert_agrees(text, STARTS, tmp_path)


def test_rows_of_a_loop_without_any_limit_are_refused(tmp_path):
    text = COLLECTS.replace("(n, , x)", "(, , x)").replace("s2 = Add (s, x)", "t = Abs (s)  s2 = Add (t, one)")
    with pytest.raises(UnsupportedOpsError, match="collects outputs of a number of turns that is not known"):
        assert_agrees(text.replace("high = {40}", "high = {40}, float one = {1}"), [], tmp_path)


@pytest.mark.parametrize(
    ("first", "token"),
    [
        ("float[2, 3] first = {7, 7, 7, 8, 8, 8}", "token = Unsqueeze (row, axes)"),
        ("float[1, 0] first = {}", "token = Unsqueeze (row, axes)"),
        ("bool[2, 3] first = {0, 1, 0, 0, 1, 1}", "signed = Unsqueeze (row, axes)  token = Less (signed, three)"),
    ],
)
def test_a_state_that_no_turn_reads_has_the_size_of_the_last_turn(first, token, tmp_path):
    dtype = first.split("[")[0]
    text = f"""<ir_version: 8, opset_import: ["": 16]>
    g (float[3] x, int64 n) => ({dtype}[A, B] y, float[3] last)
        <{first}, int64[1] axes = {{0}}, float three = {{3}}> {{
        y, last = Loop <body = b (int64 turn, bool go, {dtype}[C, D] s, float[3] h)
            => (bool on, {dtype}[1, 3] token, float[3] row) {{
                row = Add (h, x)
                {token}
                on = Identity (go)
            }}> (n, , first, x)
    }}"""
    assert_agrees(text, [{"x": X[0], "n": n} for n in (0, 1, 4)], tmp_path)


COLLECTS = """<ir_version: 8, opset_import: ["": 16]>
g (float[2, 3] x, int64 n) => (float[2, 3] last, float[N, 2, 3] rows, bool[M, 2, 3] signs) <float high = {40}> {
    last, rows, signs = Loop <body = b (int64 turn, bool go, float[2, 3] s)
        => (bool on, float[2, 3] s2, float[2, 3] row, bool[2, 3] sign) {
            s2 = Add (s, x)
            row = Neg (s2)
            sign = Less (s2, high)
            top = ReduceMax <keepdims = 0> (s2)
            on = Less (top, high)
        }> (n, , x)
}"""


def test_rows_of_a_number_of_turns_that_is_fed(tmp_path):
    assert_agrees(COLLECTS, [{"x": X, "n": n} for n in (0, 1, 3, 20)], tmp_path)


SEQUENCE = """<ir_version: 8, opset_import: ["": 16]>
g (TYPE[2, 3] x, int64 n, int64 place) => (OUTPUTS)
    <int64 last = {-1}, int64 zero = {0}, int64[1] two = {2}> {
    FIRST
    end, rows = Loop <body = b (int64 turn, bool go, TYPE[2, 3] s, seq(TYPE[2, 3]) list)
        => (bool on, TYPE[2, 3] s2, seq(TYPE[2, 3]) longer) {
            s2 = Add (s, x)
            longer = SequenceInsert (list, s2)
            on = Identity (go)
        }> (n, , x, first)
    READ
}"""
KINDS = {"float": 1, "int64": 7}
STARTING = {
    "empty": "first = SequenceEmpty <dtype = KIND> ()",
    "with two": "minus = Neg (x)  first = SequenceConstruct (minus, x)",
}
READING = {
    "stacked": ("TYPE[A, B, C] y", "y = ConcatFromSequence <axis = 0, new_axis = 1> (rows)"),
    "stacked last": ("TYPE[A, B, C] y", "y = ConcatFromSequence <axis = -1, new_axis = 1> (rows)"),
    "joined": ("TYPE[A, B] y", "y = ConcatFromSequence <axis = 0> (rows)"),
    "joined last": ("TYPE[A, B] y", "y = ConcatFromSequence <axis = -1> (rows)"),
    "one": (
        "TYPE[A, B] y, TYPE[A, B] z, int64 m",
        "y = SequenceAt (rows, last)  z = SequenceAt (rows, place)  m = SequenceLength (rows)",
    ),
    "added to": (
        "TYPE[A, B, C] y",
        "more = SequenceInsert (rows, x)  y = ConcatFromSequence <axis = 1, new_axis = 1> (more)",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("starts", STARTING)
@pytest.mark.parametrize("reads", READING)
def test_a_sequence_that_a_loop_only_adds_to(reads, starts, kind, tmp_path):
    outputs, read = READING[reads]
    text = SEQUENCE.replace("OUTPUTS", outputs).replace("READ", read).replace("FIRST", STARTING[starts])
    text = text.replace("KIND", str(KINDS[kind])).replace("TYPE", kind)
    least = 2 if starts == "empty" else 0  # ONNX Runtime stacks no empty sequence
    x = X.astype(kind.replace("float", "float32"))
    assert_agrees(text, [{"x": x, "n": n, "place": place} for n in (least, 5) for place in (1, -2)], tmp_path)


def test_a_sequence_of_a_known_number_of_turns_may_have_tensors_of_several_sizes(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 16]>
    g (float[4, 3] x) => (float[A, B] y) <int64[1] four = {4}, int64[1] zero = {0}, int64 n = {3}> {
        first = SequenceEmpty <dtype = 1> ()
        rows = Loop <body = b (int64 turn, bool go, seq(float[A, 3]) list) => (bool on, seq(float[A, 3]) longer) {
                from = Unsqueeze (turn, zero)
                part = Slice (x, from, four, zero)
                longer = SequenceInsert (list, part)
                on = Identity (go)
            }> (n, , first)
        y = ConcatFromSequence <axis = 0> (rows)
    }"""
    assert_agrees(text, [{"x": np.arange(12, dtype=np.float32).reshape(4, 3)}], tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param("longer = SequenceInsert (list, s2, zero)", "a sequence in a loop", id="in front"),
        pytest.param("other = SequenceInsert (list, s2)  longer = SequenceErase (other)", "a sequence in", id="erased"),
        pytest.param(
            "longer = SequenceInsert (list, s2)", "a sequence whose length only a run tells", id="erased after the loop"
        ),
    ],
)
def test_other_sequences_of_a_number_of_turns_that_is_fed_are_refused(change, reason, tmp_path):
    read = "less = SequenceErase (rows)  y = ConcatFromSequence <axis = 0> (less)"
    text = SEQUENCE.replace("OUTPUTS", "float[A, B] y").replace("READ", read).replace("FIRST", STARTING["empty"])
    text = text.replace("longer = SequenceInsert (list, s2)", change).replace("KIND", "1").replace("TYPE", "float")
    with pytest.raises(UnsupportedOpsError, match=reason):
        assert_agrees(text, [], tmp_path)


OPEN = """<ir_version: 8, opset_import: ["": 15]>
g (float[T, B, 2] x, bool[T, B] seen, bool whole) => (float[R, B, 2] y, float[B, 2] h)
    <int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}, int64[1] column = {1}, int64[1] two = {2}, bool on = {1},
    int64[1] from = {-1}, int64[1] to = {9223372036854775807}, float half = {0.5}, int64[1] count = {3}> {
    shape = Shape (x)  steps = Gather (shape, zero)  batch = Gather (shape, one)
    members = Unsqueeze (batch, axis)  sizes = Concat <axis = 0> (members, two)
    h0 = ConstantOfShape <value = float[1] {0.25}> (sizes)
    none = SequenceEmpty <dtype = 1> ()
    h, rows = Loop <body = b (int64 t, bool go, float[B, 2] s, seq(float[?, ?]) list)
        => (bool more, float[B, 2] s2, seq(float[?, ?]) longer) {
            row = Gather (x, t)  there = Gather (seen, t)  ones = Cast <to = 7> (there)
            number = ReduceSum <keepdims = 0> (ones)  any = Greater (number, zero)
            s2 = If (any) <
                then_branch = p () => (float[B, 2] a) {
                    mask = Unsqueeze (there, column)  both = Add (s, row)  a = Where (mask, both, s)
                },
                else_branch = q () => (float[B, 2] c) { c = Mul (s, half) }>
            longer = SequenceInsert (list, s2)
            more = Identity (on)
        }> (steps, on, h0, none)
    all = ConcatFromSequence <axis = 0, new_axis = 1> (rows)
    y = If (whole) <
        then_branch = v () => (float[R, B, 2] d) { d = Neg (all) },
        else_branch = w () => (float[1, B, 2] e) { e = Slice (all, from, to, axis, column) }>
}"""


def test_a_recurrence_over_open_sizes_as_torchscript_writes_it(tmp_path, rng):
    every = []
    for steps, members in ((1, 1), (4, 3), (6, 1)):
        x = rng.standard_normal((steps, members, 2)).astype(np.float32)
        seen = rng.random((steps, members)) < 0.5
        every += [{"x": x, "seen": seen, "whole": whole} for whole in (True, False)]
    assert_agrees(OPEN, every, tmp_path, dimensions={"T": range(1, 8), "B": range(1, 4)})


def test_branches_of_other_sizes_of_one_rank(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 16]>
    g (float[2, 3] x, bool c) => (float[A, B] y, bool[D] z)
        <int64[1] zero = {0}, int64[1] one = {1}, float two = {2}, bool[2] known = {1, 0}> {
        y, z = If (c) <
            then_branch = t () => (float[1, 3] a, bool[3] k) {
                a = Slice (x, zero, one, zero)  flat = Squeeze (a, zero)  k = Less (flat, two)
            },
            else_branch = e () => (float[4, 3] b, bool[2] m) {
                b = Concat <axis = 0> (x, x)  m = Identity (known)
            }>
    }"""
    assert_agrees(text, [{"x": X, "c": True}, {"x": X, "c": False}], tmp_path)


TENSOR_ARRAY = """<ir_version: 8, opset_import: ["": 15]>
g (int64[B, T] prefix, int32 more) => (int64[B, N] ids, float[B, 4] last)
    <float[5, 3] table, float[7, 4] kernel, float zero = {0}, int32 first = {0}, int32 one = {1}, int64[1] at = {0},
    int64[1] to = {1}, int64[1] end = {2}, int32[1] four = {4}, int32[1] none = {0}, int32[2] ones = {1, 1},
    int32[2] axes = {0, 1}, int32[2] steps = {1, 1000000000}, float[2] far = {1e9, 1e9}, int32 most = {1000000000},
    int32 least = {-1000000000}, bool[2] mask = {1, 0}> {
    shape = Shape (prefix)  narrow = Cast <to = 6> (shape)  batch = Slice (narrow, at, to, at)
    sizes = Concat <axis = 0> (batch, four)  wide = Cast <to = 7> (sizes)  h0 = Expand (zero, wide)
    part = Slice (narrow, to, end, at)  length = Squeeze (part, at)  f_length = Cast <to = 1> (length)
    on = Less (zero, f_length)
    i_end, h, length_end, prefix_end = Loop <body = read
        (int64 turn, bool go, int32 i, float[P, 4] s, int32 limit, int64[Q, R] given)
        => (bool again, int32 j, float[P, 4] s2, int32 limit_on, int64[Q, R] given_on) {
            limit_on = Identity (limit)  given_on = Identity (given)
            j = Add (i, one)  f_j = Cast <to = 1> (j)  f_limit = Cast <to = 1> (limit)  again = Less (f_j, f_limit)
            from = Unsqueeze (i, at)  starts = Concat <axis = 0> (none, from)
            below = Less (ones, none)  masked = And (below, mask)  begins = Where (masked, most, starts)
            until = Unsqueeze (j, at)  stops = Concat <axis = 0> (none, until)  f_stops = Cast <to = 1> (stops)
            f_ends = Max (f_stops, far)  ends = Cast <to = 6> (f_ends)  is_last = Equal (ends, most)
            back = And (is_last, below)  ending = Where (back, least, ends)
            taken = Slice (given, begins, ending, axes, steps)  ids_now = Squeeze (taken, to)
            row = Gather (table, ids_now)  both = Concat <axis = 1> (row, s)  m = MatMul (both, kernel)  s2 = Tanh (m)
        }> (, on, first, h0, length, prefix)
    f_more = Cast <to = 1> (more)  enter = Less (zero, f_more)
    k_end, last, more_end, rows = Loop <body = write
        (int64 turn2, bool go2, int32 k, float[U, 4] v, int32 limit2)
        => (bool again2, int32 k2, float[U, 4] v2, int32 limit2_on, int64[U] token) {
            limit2_on = Identity (limit2)  k2 = Add (k, one)
            token = ArgMax <axis = 1, keepdims = 0> (v)  row2 = Gather (table, token)
            both2 = Concat <axis = 1> (row2, v)  m2 = MatMul (both2, kernel)  v2 = Tanh (m2)
            f_k2 = Cast <to = 1> (k2)  f_limit2 = Cast <to = 1> (limit2)  again2 = Less (f_k2, f_limit2)
        }> (, enter, first, h, more)
    ids = Transpose <perm = [1, 0]> (rows)
}"""


def test_a_greedy_decoder_as_tensorflow_writes_it(tmp_path, rng):
    """Two ``while_loop``: one over the columns of what is given, one that fills a ``TensorArray`` of a length fed."""
    model = onnx.parser.parse_model(TENSOR_ARRAY)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("table", (5, 3)), ("kernel", (7, 4)))
    )
    sizes = ((1, 1, 1), (1, 3, 2), (2, 4, 3), (3, 6, 9))  # without a turn, ONNX Runtime loses the batch of the rows
    every = [{"prefix": rng.integers(0, 5, (b, t)), "more": np.int32(n)} for b, t, n in sizes]
    assert_agrees(model, every, tmp_path, counted=True, dimensions={"B": range(1, 4), "T": range(1, 7)})


REPEATED = """<ir_version: 8, opset_import: ["": 16]>
g (float[B, 3] x, int64 n) => (float[A, 3] y) <float zero = {0}> {
    shape = Shape (x)  first = Expand (zero, shape)
    y = Loop <body = b (int64 turn, bool go, float[C, 3] s) => (bool on, float[C, 3] s2) {
            s2 = Add (s, x)  on = Identity (go)
        }> (n, , first)
}"""


def test_a_state_that_is_one_number_at_first_has_the_sizes_that_it_is_repeated_to(tmp_path):
    every = [{"x": X[:rows], "n": n} for rows in (1, 2) for n in (0, 1, 4)]
    assert_agrees(REPEATED, every, tmp_path, dimensions={"B": range(1, 3)})
