from __future__ import annotations

import ast
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.data.battery import KINDS, battery_inputs
from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import Interval, index_limits
from edgekit.data.words import ANY_WORDS
from edgekit.errors import InputError
from edgekit.model import Dim, Model, ValueSpec

OnnxModel = Callable[..., onnx.ModelProto]


def draw(dtype: str, shape: tuple[int, ...] = (1000,), seed: int = 0, **limits: int) -> np.ndarray:
    return seeded_inputs([ValueSpec("x", dtype, shape)], seed, limits)["x"]


def test_the_same_seed_gives_the_same_inputs() -> None:
    np.testing.assert_array_equal(draw("float32"), draw("float32"))
    assert not np.array_equal(draw("float32"), draw("float32", seed=1))


def test_other_inputs_do_not_matter() -> None:
    both = seeded_inputs([ValueSpec("z", "float32", (7,)), ValueSpec("x", "float32", (1000,))], 0)
    np.testing.assert_array_equal(both["x"], draw("float32"))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_floats_are_standard_normal(dtype: str) -> None:
    values = draw(dtype, (10_000,))
    assert values.dtype == np.dtype(dtype)
    assert values.astype(np.float64).mean() == pytest.approx(0, abs=0.05)
    assert values.astype(np.float64).std() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("dtype", "lowest", "highest"),
    [("int64", 0, 1), ("int32", 0, 1), ("uint8", 0, 255), ("int8", -128, 127), ("bool", 0, 1)],
)
def test_the_range_of_other_types(dtype: str, lowest: int, highest: int) -> None:
    values = draw(dtype, (20_000,))
    assert values.dtype == np.dtype(dtype)
    assert (values.min(), values.max()) == (lowest, highest)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32"])
def test_a_limit_holds_for_every_type(dtype: str) -> None:
    assert set(draw(dtype, x=5)) == {0, 1, 2, 3, 4}


def test_a_scalar_has_no_dimensions() -> None:
    assert draw("int64", ()).shape == ()


@pytest.mark.parametrize(
    ("shape", "told", "options"),
    [
        (("N", 3), "N×3", "--dim N=SIZE"),
        ((1, 3, "H", "p2o.Dynamic.1"), "1×3×H×p2o.Dynamic.1", "--dim H=SIZE --dim p2o.Dynamic.1=SIZE"),
        ((1, None), "1×?", "--shape x=1,SIZE"),
        ((1, "N + 1", "T"), "1×(N + 1)×T", "--shape x=1,SIZE,SIZE"),
    ],
)
def test_a_dynamic_shape_is_refused_with_the_options_that_fix_it(
    shape: tuple[Dim, ...], told: str, options: str
) -> None:
    with pytest.raises(InputError) as caught:
        seeded_inputs([ValueSpec("x", "float32", shape)], 0)
    assert str(caught.value) == (
        f"x: float32 {told}: no input can be drawn while its shape is dynamic\n"
        f"hint: fix it with {options}, the sizes that the model meets in use"
    )


def test_the_options_of_all_inputs_are_told_at_once() -> None:
    inputs = [
        ValueSpec("ids", "int64", (1, "new")),
        ValueSpec("mask", "int64", (1, "past + new")),
        ValueSpec("cache", "float32", (1, 2, "past", 4)),
    ]
    with pytest.raises(InputError, match="fix it with --dim new=SIZE --dim past=SIZE, the sizes") as caught:
        seeded_inputs(inputs, 0)
    assert caught.value.subject == "ids: int64 1×new"


def test_texts_are_words() -> None:
    values = draw("str")
    assert values.shape == (1000,)
    assert values.dtype.kind == "U"
    assert set(values) == set(ANY_WORDS)


@pytest.mark.parametrize("dtype", ["seq(float32)", "unknown"])
def test_what_is_no_number_is_refused(dtype: str) -> None:
    with pytest.raises(InputError) as caught:
        draw(dtype)
    assert str(caught.value).startswith(
        f"x: {dtype} 1000: nothing can be drawn for this element type\nhint: cut the nodes that read it off"
    )


@pytest.mark.parametrize("shape", [None, ("N", 4)])
def test_an_input_that_is_no_tensor_is_not_asked_to_have_a_fixed_size(shape: tuple[str | int, ...] | None) -> None:
    with pytest.raises(InputError, match=r"x: optional.* nothing can be drawn for this element type"):
        seeded_inputs([ValueSpec("x", "optional(seq(float32))", shape)], 0)


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ("y = Gather (table, x)", 7),
        ("y = Gather <axis = 1> (table, x)", 3),
        ("y = Gather <axis = -1> (table, x)", 3),
        ("c = Cast <to = 7> (x) r = Reshape (c, shape) y = Gather (table, r)", 7),
        ("c = Concat <axis = 0> (one, x) y = Gather (table, c)", 7),
        ("y = OneHot (x, depth, values)", 11),
        ("p = Add (x, shape) y = Gather (table, p)", 5),
        ("p = Sub (x, one) y = Gather (table, p)", 8),
        ("p = Sub (x, several) y = Gather (table, p)", 8),
        ("e = Equal (x, entries) y = Cast <to = 1> (e)", 5),
        ("a = Gather (table, x) b = Gather <axis = 1> (table, x) y = Einsum <equation = 'ab,cd->ac'> (a, b)", 3),
    ],
)
def test_ids_stay_within_what_they_look_up(onnx_model: OnnxModel, body: str, limit: int) -> None:
    body = body.replace("'", '"')
    model = onnx_model(
        f"g (int64[4] x) => (float[A, B] y) {{ {body} }}",
        table=np.zeros((7, 3), np.float32),
        shape=np.array([2, 2]),
        one=np.array([1]),
        depth=np.array(11),
        values=np.array([0, 1], np.float32),
        entries=np.arange(5).reshape(5, 1),
        several=np.array([3, 1, 2, 2]),
    )
    assert index_limits(Model(ir.from_proto(model))) == {"x": limit}


@pytest.mark.parametrize(
    ("ids", "body", "limit"),
    [
        ("int64[2, 3]", "y = GatherElements (table, x)", 7),
        ("int64[7, 2]", "y = GatherElements <axis = 1> (table, x)", 3),
        ("int64[2, 3]", "y = ScatterElements (table, x, updates)", 7),
        ("int64[5, 1]", "y = GatherND (table, x)", 7),
        ("int64[5, 2]", "y = GatherND (table, x)", 3),  # one number for both axes: the shorter
        ("int64[7, 1]", "y = GatherND <batch_dims = 1> (table, x)", 3),
        ("int64[2, 1]", "y = ScatterND (table, x, updates)", 7),
        ("int64[2]", "y = RoiAlign (maps, rois, x)", 4),
        ("int64[3]", "y = ReverseSequence (table, x)", 8),  # lengths: the whole axis as well
        ("int64[7]", "y = ReverseSequence <time_axis = 1, batch_axis = 0> (table, x)", 4),
        ("int32[2]", "y = LSTM <hidden_size = 1> (steps, w, w, , x)", 10),
    ],
)
def test_places_and_lengths_stay_within_the_axes_that_they_are_of(
    onnx_model: OnnxModel, ids: str, body: str, limit: int
) -> None:
    model = onnx_model(
        f"g ({ids} x) => (float[A, B] y) {{ {body} }}",
        table=np.zeros((7, 3), np.float32),
        updates=np.zeros((2, 3), np.float32),
        maps=np.zeros((4, 1, 8, 8), np.float32),
        rois=np.zeros((2, 4), np.float32),
        steps=np.zeros((9, 2, 1), np.float32),
        w=np.zeros((1, 4, 1), np.float32),
    )
    assert index_limits(Model(ir.from_proto(model))) == {"x": limit}


@pytest.mark.parametrize(
    ("ends", "limits"),
    [
        ("'x', [0, 2, 5], 0", {"x": (0, 2, 5)}),
        ("'x', [0, 2, 5], 1", {}),
        ("'first', [7, 4], 0, 'last', [9, 4, 8], 0", {"x": (4,)}),
        ("'first', [7, 4], 0, 'last', [9, 8], 0", {}),
    ],
)
def test_categories_are_those_that_no_encoder_fails_at(ends: str, limits: dict[str, tuple[int, ...]]) -> None:
    values = iter(ast.literal_eval(f"[{ends}]"))
    nodes = [
        onnx.helper.make_node("Gather", ["x", "zero"], ["first"], axis=1),
        onnx.helper.make_node("Gather", ["x", "one"], ["last"], axis=1),
    ]
    for read, categories, zeros in zip(values, values, values, strict=True):
        given = {"cats_int64s": categories, "zeros": zeros}
        nodes.append(onnx.helper.make_node("OneHotEncoder", [read], [f"of_{read}"], domain="ai.onnx.ml", **given))
    graph = onnx.helper.make_graph(
        nodes,
        "table",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [3, 2])],
        [onnx.helper.make_tensor_value_info(nodes[-1].output[0], onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.array([place]), name) for place, name in ((0, "zero"), (1, "one"))],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 1)]
    assert index_limits(Model(ir.from_proto(onnx.helper.make_model(graph, opset_imports=opsets)))) == limits


def test_a_cache_is_written_where_the_update_fits(onnx_model: OnnxModel) -> None:
    graph = """g (float[2, 1, 10, 4] past, float[2, 1, 3, 4] update, int64[2] x) => (float[2, 1, 10, 4] y) {
        y = TensorScatter (past, update, x)
    }"""
    model = onnx_model(graph, opset=24, ir_version=11)
    assert index_limits(Model(ir.from_proto(model))) == {"x": 8}  # 7, 8 and 9 are the last three places


def test_the_step_and_length_of_frames_are_not_zero(onnx_model: OnnxModel) -> None:
    graph = "g (float[1, 9, 1] s, int64 step, int64 length) => (float[1, F, 3, 2] y) { y = STFT (s, step, , length) }"
    limits = index_limits(Model(ir.from_proto(onnx_model(graph, opset=17))))
    assert all(0 not in limits[name] for name in ("step", "length"))


def test_ids_inside_a_branch_count_too(onnx_model: OnnxModel) -> None:
    graph = """g (int64[4] x, bool flag) => (float[A, B] y) {
        y = If (flag) <
            then_branch = t () => (float[4, 3] a) { a = Gather (table, x) },
            else_branch = e () => (float[4, 3] b) { b = Gather (small, x) }
        >
    }"""
    tables = {"table": np.zeros((7, 3), np.float32), "small": np.zeros((4, 3), np.float32)}
    assert index_limits(Model(ir.from_proto(onnx_model(graph, **tables)))) == {"x": 4}


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ("m = Less (places, x)", 7),
        ("m = Greater (x, places)", 7),
        ("m = GreaterOrEqual (places, x)", 7),
        ("m = LessOrEqual (places, x)", 6),
        ("m = Less (x, places)", 6),
        ("u = Unsqueeze (x, axis) m = Less (places, u)", 7),
        ("c = Cast <to = 1> (x) p = Cast <to = 1> (places) m = Less (p, c)", 7),
        ("r = Range (zero, nine, one) u = Unsqueeze (r, axis) m = Less (u, x)", 10),
        ("r = Range (one, nine, one) m = Less (r, x)", None),
        ("m = Less (others, x)", None),
        ("f = Div (x, nine) n = Add (one, f) m = Less (places, n)", 54),
        ("t = Mul (x, two) n = Sub (t, one) m = LessOrEqual (places, n)", 4),
        ("n = Sub (nine, x) m = Less (places, n)", None),
    ],
)
def test_lengths_stay_within_the_axis_whose_places_they_are_compared_with(
    onnx_model: OnnxModel, body: str, limit: int | None
) -> None:
    proto = onnx_model(
        f"g (int64[1] x) => (bool[A, B] m) {{ {body} }}",
        places=np.arange(6),
        others=np.array([0, 1, 3, 4]),
        axis=np.array([0]),
        zero=np.array(0),
        one=np.array(1),
        two=np.array(2),
        nine=np.array(9),
    )
    model = Model(ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True)))
    assert index_limits(model) == ({} if limit is None else {"x": limit})


COLUMNS = """
    p = Gather <axis = {axis}> (c, first) q = Gather <axis = {axis}> (c, last)
    u = Gather (small, p) v = Gather (large, q) s = ReduceSum (u) t = ReduceSum (v) y = Add (s, t)
"""


@pytest.mark.parametrize(
    ("inputs", "body"),
    [
        ("int64[2, 6, 3] x", COLUMNS.format(axis=-1).replace("(c,", "(x,")),
        ("int64[2, 6, 3] x", "i = Identity (x) c = Cast <to = 7> (i) " + COLUMNS.format(axis=2)),
        ("int64[2, 6, 3] x, int64[2, 4, 3] z", "c = Concat <axis = 1> (x, z) " + COLUMNS.format(axis=2)),
    ],
)
def test_columns_stay_below_the_rows_of_the_tables_that_each_is_picked_for(
    onnx_model: OnnxModel, inputs: str, body: str
) -> None:
    tables = {"small": np.zeros((1, 3), np.float32), "large": np.zeros((24, 3), np.float32)}
    proto = onnx_model(f"g ({inputs}) => (float y) {{ {body} }}", **tables, first=np.array(0), last=np.array(-1))
    model = Model(ir.from_proto(proto))
    limits = index_limits(model)
    for kind in KINDS:
        for drawn in (battery_inputs(model.inputs, kind, limits), seeded_inputs(model.inputs, 5, limits)):
            for array in drawn.values():
                assert (array[..., 0] == 0).all()
                assert array[..., 1].max() < 2
                assert array.min() == 0
    assert max(battery_inputs(model.inputs, kind, limits)["x"][..., 2].max() for kind in KINDS) == 23


@pytest.mark.parametrize("body", ["c = Concat <axis = -1> (x, x) ", "c = Neg (x) "])
def test_columns_that_are_moved_have_no_limit(onnx_model: OnnxModel, body: str) -> None:
    tables = {"small": np.zeros((1, 3), np.float32), "large": np.zeros((24, 3), np.float32)}
    graph = f"g (int64[2, 6, 3] x) => (float y) {{ {body} {COLUMNS.format(axis=-1)} }}"
    assert index_limits(Model(ir.from_proto(onnx_model(graph, **tables, first=np.array(0), last=np.array(5))))) == {}


def test_what_is_computed_with_has_no_limit(onnx_model: OnnxModel) -> None:
    graph = "g (int64[4] x) => (float[4, 3] y) { i = Mul (x, x) y = Gather (table, i) }"
    assert index_limits(Model(ir.from_proto(onnx_model(graph, table=np.zeros((7, 3), np.float32))))) == {}


@pytest.mark.parametrize(
    ("comparison", "low", "high"),
    [
        ("GreaterOrEqual (pitches, x)", 50.0, 200.0),
        ("Less (x, pitches)", 50.0, 200.0),
        ("LessOrEqual (pitches, x)", 200.0, 800.0),
        ("Greater (x, pitches)", 200.0, 800.0),
    ],
)
def test_a_number_that_bounds_a_list_is_on_its_side_of_the_middle(
    onnx_model: OnnxModel, comparison: str, low: float, high: float
) -> None:
    pitches = np.array([50, 100, 200, 400, 800], np.float32)
    model = Model(ir.from_proto(onnx_model(f"g (float x) => (bool[5] y) {{ y = {comparison} }}", pitches=pitches)))
    limits = index_limits(model)
    assert limits == {"x": Interval(low, high)}
    drawn = [float(seeded_inputs([ValueSpec("x", "float32", ())], seed, limits)["x"]) for seed in range(200)]
    assert low <= min(drawn) < low + 0.1 * (high - low)
    assert high - 0.1 * (high - low) < max(drawn) <= high


@pytest.mark.parametrize(
    ("graph", "listed"),
    [
        ("g (float[5] x) => (bool[5] y) { y = Less (listed, x) }", [1, 2, 3, 4, 5]),
        ("g (float x) => (bool y) { y = Less (listed, x) }", 3),
        ("g (float x) => (bool[2] y) { y = Less (listed, x) }", [-np.inf, 1]),
    ],
)
def test_other_comparisons_tell_no_interval(onnx_model: OnnxModel, graph: str, listed: object) -> None:
    model = onnx_model(graph, listed=np.array(listed, np.float32))
    assert index_limits(Model(ir.from_proto(model))) == {}


def test_by_how_much_boxes_may_overlap_is_a_share(onnx_model: OnnxModel) -> None:
    body = "k = Cast <to = 7> (most) y = NonMaxSuppression (boxes, scores, k, overlap, score)"
    inputs = "float[1, 9, 4] boxes, float[1, 2, 9] scores, float[1] most, float[1] overlap, float[1] score"
    model = onnx_model(f"g ({inputs}) => (int64[n, 3] y) {{ {body} }}")
    assert index_limits(Model(ir.from_proto(model))) == {"overlap": Interval(0, 1)}


def test_a_number_that_bounds_lists_from_both_sides_takes_all_of_them(onnx_model: OnnxModel) -> None:
    graph = "g (float x) => (bool[3] a, bool[3] b) { a = Less (listed, x) b = Greater (listed, x) }"
    model = onnx_model(graph, listed=np.array([1, 2, 5], np.float32))
    assert index_limits(Model(ir.from_proto(model))) == {"x": Interval(1.0, 5.0)}


def test_a_single_integer_is_one_of_those_that_it_is_compared_with(onnx_model: OnnxModel) -> None:
    graph = """g (int64 rate, int64[1, 9] ids, int64 flag) => (bool a, bool[1, 9] b, bool c, bool d) {
        a = Equal(rate, high)
        d = Equal(low, rate)
        b = Equal(ids, high)
        c = Equal(flag, one)
    }"""
    constants = {"high": np.array(16000), "low": np.array(8000), "one": np.array(1)}
    limits = index_limits(Model(ir.from_proto(onnx_model(graph, **constants))))
    assert limits == {"rate": (8000, 16000)}
    specs = [ValueSpec("rate", "int64", ())]
    assert {int(seeded_inputs(specs, seed, limits)["rate"]) for seed in range(20)} == {8000, 16000}


@pytest.mark.parametrize(
    "body",
    [
        "longer = Div (x, n) y = Gather (table, longer)",
        "y = Equal (x, n)",
        "y = OneHot (x, inf, pair)",
        "y = OneHot (x, four, pair)",
        "places = Range (row, n, row) y = Less (places, x)",
    ],
)
def test_what_no_axis_reaches_tells_nothing(onnx_model: OnnxModel, body: str) -> None:
    model = onnx_model(
        f"agraph (int64[1] x) => (float y) {{ {body} }}",
        table=np.zeros((3, 2), np.float32),
        n=np.array([10**18]),
        inf=np.array(np.inf, np.float32),
        four=np.zeros((2, 2), np.int64),
        row=np.zeros((1, 2), np.int64),
        pair=np.array([0, 1], np.float32),
    )
    limits = index_limits(Model(ir.from_proto(model)))
    drawn = seeded_inputs([ValueSpec("x", "int64", (1,))], 0, limits)["x"]
    assert drawn in (0, 1)


MASKED = """<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]>
g (int64[N, T] mask, int64[N, T] other, float[N, S, 32] q, float[N, S, 32] k) => (float[N, S, 32] y)
<int64[1] axis = {1}, int64[1] one = {1}, int64 at = {1}> {
    counts = ReduceSum <keepdims = 0> (mask, axis)
    last = Sub (counts, one)
    small_last = Cast <to = 6> (last)
    sizes = Shape (other)
    total = Gather (sizes, at)
    small_total = Cast <to = 6> (total)
    y, keys, values = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2>
        (q, k, k, , , small_last, small_total)
}"""


def test_a_mask_whose_sum_counts_the_keys_of_attention_is_full() -> None:
    assert index_limits(Model(ir.from_proto(onnx.parser.parse_model(MASKED)))) == {"mask": (1,)}


@pytest.mark.parametrize("operator", ["Div", "Mod"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64"])
def test_integers_are_divided_by_no_zeros(operator: str, dtype: str) -> None:
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g ({dtype}[500] x, {dtype}[5, 100] by) => ({dtype}[500] y)'
        f" <int64[1] flat = {{-1}}> {{ list = Reshape (by, flat) y = {operator} (x, list) }}"
    )
    model = Model(ir.from_proto(proto))
    limits = index_limits(model)
    for kind in KINDS:
        drawn = battery_inputs(model.inputs, kind, limits)
        assert drawn["by"].min() > 0
        assert drawn["by"].dtype == np.dtype(dtype)
    assert "x" not in limits


def test_floats_are_divided_by_any_numbers() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[4] x, float[4] by) => (float[4] y) { y = Div (x, by) }'
    )
    assert not index_limits(Model(ir.from_proto(proto)))
