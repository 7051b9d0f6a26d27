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
from edgekit.graph.loop_turns import count_turns

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def assert_agrees(
    text: str, every: Sequence[Mapping[str, Any]], folder: Path, *, counted: bool = False, **options: Any
):
    """One conversion computes for all feeds what ONNX Runtime does; ``counted``: after what ``simplify`` does of it."""
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    if counted:
        graph_model = ir.from_proto(model)
        assert count_turns(graph_model)
        model = ir.to_proto(graph_model)
    runner = edgekit_coreml.load(edgekit_coreml.convert(model, folder / "m", precision="float32", **options))
    for feeds in every:
        given = {name: np.asarray(value) for name, value in feeds.items()}
        results = runner.run(dict(given))
        for output, wanted in zip(session.get_outputs(), session.run(None, given), strict=True):
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
