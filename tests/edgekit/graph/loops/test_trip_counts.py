from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.loops.trip_counts import ends_by_count, set_trip_counts

COUNTING = """<ir_version: 9, opset_import: ["": 17]>
g (float[1] x) => (float[1] last, float[N, 1] rows)
    <int64 most = {{{most}}}, int32 start = {{{start}}}, bool on = {{{on}}}> {{
    end, last, rows = Loop <body = b (int64 turn, bool go, int32 i, float[1] h)
        => (bool more, int32 j, float[1] n, float[1] row) {{
            step = Constant <value = int32 {{{step}}}> ()
            limit = Constant <value = {limit}> ()
            j = Add (i, step)  n = Add (h, x)  row = Neg (n)
            {condition}
        }}> (most, on, start, x)
}}"""
FIVE = "int32 {5}"
ENDLESS = 2**63 - 1


def computed(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def counting(condition, *, limit=FIVE, start=0, step=1, most=ENDLESS, on=1) -> onnx.ModelProto:
    text = COUNTING.format(condition=condition, limit=limit, start=start, step=step, most=most, on=on)
    return onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))


def loop_in(model: ir.Model) -> ir.Node:
    (loop,) = [node for node in model.graph if node.op_type == "Loop"]
    return loop


def trip_count(loop: ir.Node) -> int | None:
    tensor = None if loop.inputs[0] is None else ir.convenience.get_const_tensor(loop.inputs[0])
    return None if tensor is None else int(tensor.numpy())


@pytest.mark.parametrize(
    ("condition", "options", "turns"),
    [
        pytest.param("more = Less (j, limit)", {}, 5, id="counter after the turn"),
        pytest.param("more = Less (i, limit)", {}, 6, id="counter before the turn"),
        pytest.param("more = LessOrEqual (j, limit)", {}, 6, id="or equal"),
        pytest.param("more = Greater (limit, j)", {}, 5, id="limit first"),
        pytest.param("more = GreaterOrEqual (limit, j)", {}, 6, id="limit first, or equal"),
        pytest.param("more = Less (j, limit)", {"step": 2}, 3, id="a larger step"),
        pytest.param("more = LessOrEqual (j, limit)", {"step": 5}, 2, id="a step up to the limit"),
        pytest.param("more = Greater (j, limit)", {"start": 15, "step": -3}, 4, id="downwards"),
        pytest.param("more = GreaterOrEqual (j, limit)", {"start": 14, "step": -3}, 4, id="downwards, or equal"),
        pytest.param("more = Less (j, limit)", {"start": 7}, 1, id="begins beyond the limit"),
        pytest.param("more = Less (j, limit)", {"most": 3}, 3, id="the trip count comes first"),
        pytest.param("less = GreaterOrEqual (j, limit)  more = Not (less)", {}, 5, id="negated"),
        pytest.param("f = Cast <to = 1> (j)  more = Less (f, limit)", {"limit": "float {4.5}"}, 5, id="in floats"),
        pytest.param("k = Sub (j, step)  more = Less (k, limit)", {}, 6, id="a difference"),
        pytest.param("below = Less (j, limit)  more = And (below, go)", {}, 5, id="and what began the turn"),
        pytest.param(
            "two = Constant <value = int64 {2}> ()  one = Less (turn, two)  other = Less (j, limit)  "
            "more = And (one, other)",
            {},
            3,
            id="and another counter",
        ),
    ],
)
def test_a_condition_becomes_the_trip_count(condition, options, turns) -> None:
    given = counting(condition, **options)
    feeds = {"x": np.ones(1, np.float32)}
    wanted = computed(given, feeds)
    assert len(wanted[1]) == turns
    model = ir.from_proto(given)
    assert set_trip_counts(model)
    loop = loop_in(model)
    assert trip_count(loop) == turns
    assert ends_by_count(loop)
    assert loop.outputs[2].shape == [turns, 1]
    assert not set_trip_counts(model)
    for got, want in zip(computed(ir.to_proto(model), feeds), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("condition", "options"),
    [
        pytest.param(
            "top = ReduceMax <keepdims = 0> (n)  more = Less (top, limit)", {"limit": "float {3}"}, id="a state"
        ),
        pytest.param("more = Less (j, limit)", {"step": -1, "most": 4}, id="away from the limit"),
        pytest.param("more = Less (j, limit)", {"on": 0}, id="it never begins"),
        pytest.param("k = Mul (j, j)  more = Less (k, limit)", {}, id="a product"),
        pytest.param(
            "f = Cast <to = 1> (j)  more = Less (f, limit)",
            {"start": 16777210, "limit": "float {16777217}", "most": 20},
            id="floats that have no such integer",
        ),
    ],
)
def test_other_conditions_stay(condition, options) -> None:
    given = counting(condition, **options)
    model = ir.from_proto(given)
    assert not set_trip_counts(model)
    assert ir.to_proto(model) == ir.to_proto(ir.from_proto(given))


CONJUNCTIONS = {
    "an And": """top = ReduceMax <keepdims = 0> (n)  highest = Constant <value = float {9}> ()
        small = Less (top, highest)  below = Less (j, limit)  more = And (small, below)""",
    "TorchScript's If, what is counted in the branch": """
        top = ReduceMax <keepdims = 0> (n)  highest = Constant <value = float {9}> ()
        small = Less (top, highest)  asked = Cast <to = 9> (small)
        more = If (asked) <
            then_branch = t () => (bool a) { a = Less (j, limit) },
            else_branch = e () => (bool b) { b = Identity (small) }>""",
    "TorchScript's If, what is counted as the condition": """
        top = ReduceMax <keepdims = 0> (n)  highest = Constant <value = float {9}> ()
        small = Less (top, highest)  below = Less (j, limit)  no = Constant <value = bool {0}> ()
        more = If (below) <
            then_branch = t () => (bool a) { a = Identity (small) },
            else_branch = e () => (bool b) { b = Identity (no) }>""",
}


@pytest.mark.parametrize("case", CONJUNCTIONS)
def test_what_else_a_condition_asks_stays_beside_the_trip_count(case: str) -> None:
    given = counting(CONJUNCTIONS[case])
    model = ir.from_proto(given)
    assert set_trip_counts(model)
    assert trip_count(loop_in(model)) == 5
    assert not ends_by_count(loop_in(model))
    assert not set_trip_counts(model)
    for x, turns in ((1.0, 5), (3.0, 2)):
        feeds = {"x": np.full(1, x, np.float32)}
        wanted = computed(given, feeds)
        assert len(wanted[1]) == turns
        for got, want in zip(computed(ir.to_proto(model), feeds), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_an_if_that_goes_on_where_its_condition_does_not_hold_is_no_and() -> None:
    condition = """top = ReduceMax <keepdims = 0> (n)  highest = Constant <value = float {9}> ()
        large = Greater (top, highest)  small = Not (large)
        more = If (large) <
            then_branch = t () => (bool a) { a = Less (j, limit) },
            else_branch = e () => (bool b) { b = Identity (small) }>"""
    assert not set_trip_counts(ir.from_proto(counting(condition, most=8)))


OVER_ROWS = """<ir_version: 9, opset_import: ["": 17]>
g (float[N, 2] x) => (float[2] last, float[M, 2] rows)
    <int32 start = {{{start}}}, float zero = {{0}}, float[2] h0 = {{0, 0}}, int64[1] at = {{0}}, int64[1] to = {{1}}> {{
    shape = Shape (x)  narrow = Cast <to = 6> (shape)  part = Slice (narrow, at, to, at)  size = Squeeze (part, at)
    whole = Cast <to = 7> (size)  f = Cast <to = 1> (size)  first = Cast <to = 1> (start)  on = Less (first, f)
    end, last, kept, rows = Loop <body = b (int64 turn, bool go, int32 i, float[2] h, int32 limit)
        => (bool more, int32 j, float[2] n, int32 limit_on, float[2] row) {{
            step = Constant <value = int32 {{{step}}}> ()  j = Add (i, step)
            row = Gather (x, i)  n = Add (h, row)  limit_on = Identity (limit)
            f_j = Cast <to = 1> (j)  f_limit = Cast <to = 1> (limit)  below = Less (f_j, f_limit)
            f_turn = Cast <to = 1> (turn)  again = Less (f_turn, f)  more = And (below, again)
        }}> ({count}, {entry}, start, h0, size)
}}"""


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("count", ["whole", '""'])
@pytest.mark.parametrize("entry", ["on", '""'])
def test_a_size_that_is_open_is_the_trip_count(entry, count, start, step) -> None:
    text = OVER_ROWS.format(entry=entry.strip('"'), count=count.strip('"'), start=start, step=step)
    given = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text), data_prop=True)
    model = ir.from_proto(given)
    assert set_trip_counts(model)
    assert not set_trip_counts(model)
    loop = loop_in(model)
    assert ends_by_count(loop)
    if count == "whole" and entry == "on" and start == 0 and step == 1:
        assert loop.inputs[0].name == "whole"  # the trip count that was there says it already
    changed = ir.to_proto(model)
    onnx.checker.check_model(changed, full_check=True)
    least = start + 1 if entry != "on" else 0
    for rows in range(least, 6):
        feeds = {"x": np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)}
        turns = len(range(start, rows, step))
        wanted = computed(given, feeds)
        assert len(wanted[1]) == turns
        for got, want in zip(computed(changed, feeds), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_size_that_is_known_is_the_trip_count() -> None:
    text = OVER_ROWS.format(entry="", count="", start=0, step=1).replace("float[N, 2] x", "float[4, 2] x")
    given = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text), data_prop=True)
    model = ir.from_proto(given)
    assert set_trip_counts(model)
    assert trip_count(loop_in(model)) == 4
    assert loop_in(model).outputs[3].shape == [4, 2]


def test_a_limit_that_is_fed_counts_where_its_type_holds_it() -> None:
    text = """<ir_version: 9, opset_import: ["": 17]>
    g (int64 limit, float[1] x) => (float[1] last, float[M, 1] rows) <int64 start = {0}> {
        end, last, rows = Loop <body = b (int64 turn, bool go, int64 i, float[1] h)
            => (bool more, int64 j, float[1] n, float[1] row) {
                three = Constant <value = int64 {3}> ()  j = Add (i, three)  n = Add (h, x)  row = Neg (n)
                more = LessOrEqual (j, limit)
            }> (, , start, x)
    }"""
    given = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    model = ir.from_proto(given)
    assert set_trip_counts(model)
    assert ends_by_count(loop_in(model))
    for limit, turns in ((-7, 1), (0, 1), (2, 1), (3, 2), (5, 2), (6, 3)):
        feeds = {"limit": np.array(limit), "x": np.ones(1, np.float32)}
        wanted = computed(given, feeds)
        assert len(wanted[1]) == turns
        for got, want in zip(computed(ir.to_proto(model), feeds), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


IN_FLOATS = """<ir_version: 9, opset_import: ["": 17]>
g (int32 limit, float[1] x) => (float[1] last, float[M, 1] rows)
    <int32 start = {{{start}}}, float first = {{{start}}}> {{
    f_outer = Cast <to = {outer}> (limit)  f_entry = Cast <to = 1> (limit)  enter = Less (first, f_entry)
    end, last, same, rows = Loop <body = b (int64 turn, bool go, int32 i, float[1] h, int32 limit_in)
        => (bool more, int32 j, float[1] n, int32 limit_on, float[1] row) {{
            step = Constant <value = int32 {{{step}}}> ()  j = Add (i, step)  n = Add (h, x)  row = Neg (n)
            limit_on = Identity (limit_in)  f = Cast <to = {inner}> (j)  f_limit = Cast <to = {inner}> (limit_in)
            more = {below}
        }}> (, {enter}, start, x, limit)
}}"""


@pytest.mark.parametrize("enter", ["enter", ""])
@pytest.mark.parametrize(
    ("below", "step", "inner", "start", "limits"),
    [
        pytest.param("Less (f, f_limit)", 1, 1, 0, (-3, 0, 1, 6), id="as TensorFlow writes it"),
        pytest.param("Greater (f_outer, f)", 3, 1, 0, (-3, 0, 1, 6, 7), id="the limit is cast outside"),
        pytest.param(
            "Less (f, f_limit)", 1, 1, 2**24 - 2, (2**24 - 2, 2**24, 2**24 + 1, 2**24 + 2), id="where floats are even"
        ),
        pytest.param("Less (f, f_limit)", 1, 10, 2046, (2040, 2047, 2049, 2050), id="half floats"),
    ],
)
def test_integers_that_are_compared_as_floats_are_an_upper_limit(below, step, inner, start, limits, enter) -> None:
    text = IN_FLOATS.format(below=below, step=step, inner=inner, outer=inner, start=start, enter=enter)
    given = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    model = ir.from_proto(given)
    assert set_trip_counts(model)
    assert not set_trip_counts(model)
    assert not ends_by_count(loop_in(model))
    changed = ir.to_proto(model)
    onnx.checker.check_model(changed, full_check=True)
    for limit in limits:
        feeds = {"limit": np.array(limit, np.int32), "x": np.ones(1, np.float32)}
        for got, want in zip(computed(changed, feeds), computed(given, feeds), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("below", "outer"),
    [
        pytest.param("LessOrEqual (f, f_limit)", 1, id="equal floats of greater integers go on"),
        pytest.param("Less (f, f_half)", 10, id="the sides are rounded in two ways"),
    ],
)
def test_integers_that_floats_put_in_another_order_are_no_limit(below, outer) -> None:
    text = IN_FLOATS.format(below=below, step=1, inner=1, outer=outer, start=0, enter="")
    text = text.replace("f_entry = Cast", "f_half = Cast <to = 1> (f_outer)  f_entry = Cast")
    assert not set_trip_counts(ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))))


FED = """<ir_version: 9, opset_import: ["": 17]>
g (int64 limit, float[1] x) => (float[1] last, float[M, 1] rows)
    <int64 start = {{0}}, int64 endless = {{9223372036854775807}}, bool no = {{0}}, float highest = {{9}}> {{
    enter = Less (start, limit)
    end, last, rows = Loop <body = b (int64 turn, bool go, int64 i, float[1] h)
        => (bool more, int64 j, float[1] n, float[1] row) {{
            step = Constant <value = int64 {{{step}}}> ()  j = Add (i, step)  n = Add (h, x)  row = Neg (n)
            top = ReduceMax <keepdims = 0> (n)  ended = Greater (top, highest)  small = Not (ended)
            more = If (small) <
                then_branch = t () => (bool a) {{ a = {below} (j, limit) }},
                else_branch = e () => (bool b) {{ b = Identity (no) }}>
        }}> ({most}, {enter}, start, x)
}}"""


@pytest.mark.parametrize("enter", ["enter", ""])
@pytest.mark.parametrize("most", ["endless", ""])
@pytest.mark.parametrize(("below", "step"), [("Less", 1), ("LessOrEqual", 3)])
def test_a_limit_that_is_fed_counts_beside_what_else_ends_the_loop(below, step, most, enter) -> None:
    text = FED.format(below=below, step=step, most=most, enter=enter)
    given = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    model = ir.from_proto(given)
    assert set_trip_counts(model)
    assert not set_trip_counts(model)
    loop = loop_in(model)
    assert not ends_by_count(loop)
    if (below, enter) == ("Less", "enter"):
        assert loop.inputs[0].name == "limit"
        assert loop.inputs[1] is None
    changed = ir.to_proto(model)
    onnx.checker.check_model(changed, full_check=True)
    for limit in (-4, 0, 1, 5, 7, 99):
        for x in (1.0, 4.0, 20.0):
            feeds = {"limit": np.array(limit), "x": np.full(1, x, np.float32)}
            wanted, got = computed(given, feeds), computed(changed, feeds)
            for one, other in zip(got, wanted, strict=True):
                np.testing.assert_array_equal(one, other)


def test_a_trip_count_that_is_the_least_of_several_is_read() -> None:
    text = FED.format(below="Less", step=1, most="several", enter="enter")
    limits = "six = Constant <value = int64 {6}> ()  several = Min (six, limit)"
    text = text.replace("enter = Less", f"{limits}  enter = Less")
    model = ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)))
    assert not set_trip_counts(model)  # it says already what the condition does
