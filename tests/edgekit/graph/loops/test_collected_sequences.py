from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx_ir.passes.common import ShapeInferencePass

from edgekit.graph.loops.collected_sequences import collect_sequences

ADDED = "k = Identity (c) row = {row} u = SequenceInsert (s{more})"
SEQUENCES = {
    "ConcatFromSequence",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceInsert",
    "SequenceLength",
    "SplitToSequence",
}
TURNS = 5
X = np.random.default_rng(0).standard_normal((TURNS, 2, 3)).astype(np.float32)


@pytest.fixture
def collecting(onnx_model: Callable[..., onnx.ModelProto]) -> Callable[..., onnx.ModelProto]:
    """Makes a model of a loop that adds a row of its input to a sequence in each turn."""

    def written(
        after: str,
        *,
        first: str = "e = SequenceEmpty ()",
        row: str = "Gather (x, i)",
        more: str = ", row",
        shape: str = "5, 2, 3",
    ) -> onnx.ModelProto:
        body = ADDED.format(row=row, more=more)
        graph = f"""g (float[{shape}] x, int64 n) => (y) {{
            {first}
            l = Loop <body = b (int64 i, bool c, seq(float) s) => (k, u) {{ {body} }}> (n, , e)
            {after}
        }}"""
        numbers = {"zero": np.array(0), "last": np.array(-1), "one": np.array(1), "vector": np.array([1])}
        return onnx.shape_inference.infer_shapes(onnx_model(graph, opset=13, **numbers))

    return written


def collected(proto: onnx.ModelProto) -> onnx.ModelProto:
    model = ir.from_proto(proto)
    assert collect_sequences(model)
    ShapeInferencePass(strict_mode=False)(model)  # once the rows of one loop are known, others can collect theirs
    collect_sequences(model)
    return ir.to_proto(model)


def computed(proto: onnx.ModelProto, turns: int) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (found,) = session.run(["y"], {"x": X, "n": np.array(turns)})
    assert isinstance(found, np.ndarray)
    return found


def operators(proto: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in ir.from_proto(proto).graph.all_nodes()}


def assert_same(before: onnx.ModelProto, *turns: int) -> None:
    after = collected(before)
    assert not operators(after) & SEQUENCES
    for count in turns:
        np.testing.assert_array_equal(computed(after, count), computed(before, count), strict=True)


@pytest.mark.parametrize("axis", [-3, -1, 0, 1, 2])
def test_rows_are_stacked_along_any_axis(collecting: Callable[..., onnx.ModelProto], axis: int) -> None:
    assert_same(collecting(f"y = ConcatFromSequence <axis = {axis}, new_axis = 1> (l)"), 1, TURNS)


@pytest.mark.parametrize("shape", ["5, 2, 3", "t, 2, d", "t, b, 3"])
@pytest.mark.parametrize("axis", [-2, -1, 0, 1])
def test_rows_are_joined_along_any_axis(collecting: Callable[..., onnx.ModelProto], axis: int, shape: str) -> None:
    assert_same(collecting(f"y = ConcatFromSequence <axis = {axis}> (l)", shape=shape), 1, TURNS)


@pytest.mark.parametrize("place", ["zero", "last", "vector"])
def test_a_row_is_read_by_its_place(collecting: Callable[..., onnx.ModelProto], place: str) -> None:
    assert_same(collecting(f"y = SequenceAt (l, {place})"), 2, TURNS)


def test_how_many_rows_there_are(collecting: Callable[..., onnx.ModelProto]) -> None:
    assert_same(collecting("y = SequenceLength (l)"), 0, 1, TURNS)


@pytest.mark.parametrize(
    "first",
    [
        "a = Gather (x, one) e = SequenceConstruct (a)",
        "a = Gather (x, one) b = Neg (a) e = SequenceConstruct (a, b)",
        "a = Gather (x, one) z = SequenceEmpty () e = SequenceInsert (z, a)",
        "e = SplitToSequence <axis = 0, keepdims = 0> (x)",
    ],
)
def test_what_the_sequence_was_before_stays_in_front(collecting: Callable[..., onnx.ModelProto], first: str) -> None:
    assert_same(collecting("y = ConcatFromSequence <axis = 1, new_axis = 1> (l)", first=first), 0, 1, TURNS)
    assert_same(
        collecting(
            "m = SequenceInsert (l, x0) y = ConcatFromSequence <axis = 1> (m)", first=f"x0 = Gather (x, last) {first}"
        ),
        0,
        3,
    )


def test_another_loop_reads_the_rows_from_behind_and_collects_its_own(
    collecting: Callable[..., onnx.ModelProto],
) -> None:
    body = (
        "h = Identity (d) size = SequenceLength (l) top = Sub (size, one) at = Sub (top, j) r = SequenceAt (l, at) "
        "v = Add (w, r) q = SequenceInsert (p, v)"
    )
    after = f"""a = Gather (x, zero) o = SequenceConstruct (a)  times = SequenceLength (l)
        kept, m = Loop <body = b2 (int64 j, bool d, float[2, 3] w, seq(float) p) => (h, v, q) {{ {body} }}> (
            times, , a, o)
        y = ConcatFromSequence <axis = 0, new_axis = 1> (m)"""
    assert_same(collecting(after), 1, TURNS)


def test_a_loop_reads_the_parts_of_a_tensor(onnx_model: Callable[..., onnx.ModelProto]) -> None:
    body = "h = Identity (d) r = SequenceAt (e, j) v = Add (w, r)"
    graph = f"""g (float[5, 2, 3] x, int64 n) => (y) {{
        e = SplitToSequence <axis = -2, keepdims = 0> (x)
        a = Gather <axis = 1> (x, zero)
        y = Loop <body = b (int64 j, bool d, float[5, 3] w) => (h, v) {{ {body} }}> (n, , a)
    }}"""
    assert_same(onnx.shape_inference.infer_shapes(onnx_model(graph, opset=13, zero=np.array(0))), 1, 2)


def test_a_state_beside_the_sequence_keeps_its_place(onnx_model: Callable[..., onnx.ModelProto]) -> None:
    body = "k = Identity (c) t = Gather (x, i) w2 = Add (w, t) u = SequenceInsert (s, w2) v = SequenceInsert (r, w)"
    graph = f"""g (float[5, 2, 3] x, int64 n) => (y) {{
        e = SequenceEmpty () a = Gather (x, zero)
        l, sum, m, all = Loop <
            body = b (int64 i, bool c, seq(float) s, float[2, 3] w, seq(float) r) => (k, u, w2, v, t) {{ {body} }}
        > (n, , e, a, e)
        p = ConcatFromSequence <axis = 0, new_axis = 1> (l)
        q = ConcatFromSequence <axis = 0, new_axis = 1> (m)
        pq = Sub (p, q) pqs = Add (pq, sum) y = Mul (pqs, all)
    }}"""
    assert_same(onnx.shape_inference.infer_shapes(onnx_model(graph, opset=13, zero=np.array(0))), 1, TURNS)


STACKED = "y = ConcatFromSequence <axis = 0, new_axis = 1> (l)"
UNKNOWN = "Gather (x, i) places = NonZero (row) counted = Cast <to = 1> (places)"
"""Two axes, of which the second has a size that is known when the numbers are."""


@pytest.mark.parametrize(
    ("after", "options"),
    [
        (STACKED, {"more": ", row, zero"}),  # each goes in front of the others
        ("y = ConcatFromSequence <axis = 0> (l)", {"row": UNKNOWN, "more": ", counted"}),  # sizes are not known
        ("y = SequenceAt (l, zero)", {"row": UNKNOWN, "more": ", counted"}),
        ("m = SequenceErase (l, zero) y = ConcatFromSequence <axis = 0> (m)", {}),
        (STACKED, {"more": ", row) size = SequenceLength (u"}),  # the body reads it
        (STACKED, {"first": "e = SequenceConstruct (x)"}),  # of other shape
    ],
)
def test_other_sequences_stay(collecting: Callable[..., onnx.ModelProto], after: str, options: dict[str, str]) -> None:
    model = ir.from_proto(collecting(after, **options))
    before = ir.to_proto(model)
    assert not collect_sequences(model)
    assert ir.to_proto(model) == before


def test_tensors_of_unknown_size_are_stacked(collecting: Callable[..., onnx.ModelProto]) -> None:
    assert_same(collecting(STACKED, row=UNKNOWN, more=", counted"), 1, TURNS)
