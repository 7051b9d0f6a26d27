from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.data.battery import KINDS, battery_inputs
from edgekit.execution.equivalence import Equivalence, trial_inputs
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.execution.tolerance import compare
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

ONES = np.ones((2, 3), np.float32)


@pytest.fixture
def model(onnx_model: OnnxModel) -> Callable[..., Model]:
    return lambda graph, **rest: Model(ir.from_proto(onnx_model(graph, **rest)))


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (ONES, ONES * np.float32(1.0001)),
        (np.array([1, 2]), np.array([1, 2])),
        (np.array([np.nan, np.inf, 1], np.float32), np.array([np.nan, np.inf, 1], np.float32)),
        (np.zeros(3, np.float32), np.zeros(3, np.float32)),
        (np.float16([1, 100]), np.float16([1.5, 100])),  # half of float16's digits, of the largest value
        (["a", "b"], ["a", "b"]),
        ([ONES, ONES], [ONES, ONES]),
    ],
)
def test_what_counts_as_the_same(expected: object, found: object) -> None:
    assert compare("y", expected, found) is None


@pytest.mark.parametrize(
    ("expected", "found", "difference"),
    [
        (ONES, ONES * np.float32(1.01), "y differs by 0.01, its largest value is 1"),
        (ONES, ONES.T, "y is float32[3, 2], was float32[2, 3]"),
        (ONES, ONES.astype(np.float64), "y is float64[2, 3], was float32[2, 3]"),
        (np.array([1, 2]), np.array([1, 3]), "y has other values"),
        (
            np.array([np.nan, 1], np.float32),
            np.array([1, np.nan], np.float32),
            "y has infinities or NaN at other places",
        ),
        (np.array([np.inf], np.float32), np.array([-np.inf], np.float32), "y has infinities or NaN at other places"),
        (ONES, ONES * np.float32(np.nan), "y differs by nan, its largest value is 1"),
        (np.zeros(2, np.float32), np.float32([0, 1e-20]), "y differs by 1e-20, its largest value is 0"),
        ([ONES], [ONES, ONES], "y has another length"),
        (ONES, None, "y is gone"),
        ([ONES, ONES], [ONES, ONES * 2], "y[1] differs by 1, its largest value is 1"),
    ],
)
def test_what_counts_as_different(expected: object, found: object, difference: str) -> None:
    assert compare("y", expected, found) == difference


def test_a_model_equals_its_rewritten_form(model: Callable[..., Model]) -> None:
    before = Equivalence(model("g (float[N, 4] x) => (float[N, 4] y) { a = Add (x, x) y = Relu (a) }"))
    same = model("g (float[N, 4] x) => (float[N, 4] y) { r = Relu (x) y = Add (r, r) }")
    other = model("g (float[N, 4] x) => (float[N, 4] y) { r = Abs (x) y = Add (r, r) }")
    assert before.difference(same) is None
    assert str(before.difference(other)).startswith("output y differs by ")


def test_a_model_that_no_longer_runs_is_different(model: Callable[..., Model]) -> None:
    before = Equivalence(model("g (float[1, 4] x) => (float[1, 4] y) { y = Relu (x) }"))
    after = model("g (float[1, 4] x) => (float[1, 5] y) { y = MatMul (x, w) }", w=np.ones((3, 5), np.float32))
    assert "ONNX Runtime cannot execute it" in str(before.difference(after))


def test_dynamic_sizes_are_tried_until_one_runs(model: Callable[..., Model]) -> None:
    graph = "g (float[N, L] x) => (float[N, M] y) { y = MatMul (x, w) }"
    before = Equivalence(model(graph, w=np.ones((64, 2), np.float32)))
    assert before.difference(model(graph, w=np.ones((64, 2), np.float32))) is None


def test_where_no_drawn_integers_are_taken_those_of_a_sample_are(model: Callable[..., Model]) -> None:
    """How long a singer's notes are tells where the next ones begin; what is drawn puts them outside of the song."""
    song = model(
        "g (float[4] x, int64[N] lengths) => (float[N] y) "
        "{ zero = Constant <value_int = 0> () last = Constant <value_int = 24> () "
        "ends = CumSum (lengths, zero) places = Sub (last, ends) y = Gather (x, places) }"
    )
    with pytest.raises(NotRunnableError, match="out of data bounds"):
        Equivalence(song)
    lengths = np.array([21, 2, 1])
    sung = replace(song, sample_shapes={"x": (4,), "lengths": (3,)}, sample_integers={"lengths": lengths})
    before = Equivalence(sung)
    x = battery_inputs(sung.inputs[:1], KINDS[0])["x"]
    np.testing.assert_array_equal(before.outputs["y"], x[[3, 1, 0]])
    assert before.difference(sung) is None
    in_ranges = replace(sung, open_dims={"N": range(2, 9)})
    np.testing.assert_array_equal(Equivalence(in_ranges).outputs["y"], x[[3, 1, 0]])


def test_first_axes_of_several_names_are_no_batch(model: Callable[..., Model]) -> None:
    graph = """f (float[nodes, 2] x, int64[2, edges] to, float[edges, 1] d) => (float[2, edges, 2] y) {{
        ends = Gather (x, to)
        far = Mul (ends, d)
        y = {} (far)
    }}"""
    before = Equivalence(model(graph.format("Neg")))  # a single node has no second one, which some of the edges lead to
    assert before.difference(model(graph.format("Neg"))) is None
    assert before.difference(model(graph.format("Abs"))) is not None


def test_open_dimensions_are_at_their_last_sizes_together(model: Callable[..., Model]) -> None:
    open_dims = {"p": range(4, 10), "q": range(4, 10)}
    graph = "g (float[p, 3] x, float[q, 3] z) => (float[r, 3] y) {{ y = {} (x, z) }}"
    given = replace(model(graph.format("Add")), open_dims=open_dims)
    ((first, last),) = trial_inputs(given)
    assert [spec.shape for spec in (*first, *last)] == [(4, 3), (4, 3), (9, 3), (9, 3)]
    before = Equivalence(given)
    assert before.difference(replace(model(graph.format("Sub")), open_dims=open_dims)) is not None


def test_what_no_size_fits_cannot_be_compared(model: Callable[..., Model]) -> None:
    with pytest.raises(NotRunnableError) as caught:
        Equivalence(
            model("g (float[N, L] x) => (float[N, M] y) { [mm] y = MatMul (x, w) }", w=np.ones((13, 2), np.float32))
        )
    assert caught.value.node == "mm"


ATTENTION = """f (float[N, "L", 4] x, float[N, "P + 1"] mask, float[N, "P", 4] past) => (float[N, L, T] y) {
    key = Concat <axis = 1> (past, x)
    turned = Transpose <perm = [0, 2, 1]> (key)
    scores = MatMul (x, turned)
    y = Add (scores, mask)
}"""
"""A mask for one new token: no size but 1 fits where all dimensions have the same."""


def tried_sizes(given: Model) -> list[object]:
    return [first[0].shape[1] for first, _ in trial_inputs(given) if first[0].shape is not None]


def test_sizes_at_which_a_value_inside_is_huge_are_not_tried(model: Callable[..., Model]) -> None:
    attention = model(ATTENTION)
    assert tried_sizes(attention) == [8, 32, 64, 224, 512, 1]
    assert {name: array.shape for name, array in Equivalence(attention).outputs.items()} == {"y": (1, 1, 2)}


RAGGED = """f (int32[N, L] flat, int32[N, S] ends) => (bool[T, S] y) <int64 zero = {0}, int64 step = {1}> {
    shape = Shape (flat)
    one = Constant <value_int = 1> ()
    count = Gather (shape, one)
    places = Range (zero, count, step)
    place = Cast <to = 6> (places)
    axes = Constant <value_ints = [-1]> ()
    column = Unsqueeze (place, axes)
    y = GreaterOrEqual (column, ends)
}"""
"""Every place of a list is compared with every end of a row; shape inference alone does not tell how many places."""


def test_sizes_that_are_computed_inside_count(model: Callable[..., Model]) -> None:
    assert tried_sizes(model(RAGGED)) == [8, 32, 64, 224, 512, 1]


def test_a_second_of_sound_is_tried_last(model: Callable[..., Model]) -> None:
    sound = model("f (float[N, L] x) => (float[N, L] y) { y = Relu (x) }")
    assert tried_sizes(sound) == [8, 32, 64, 224, 512, 1, 16_000]


def test_threads_of_the_reference_wait_without_computing(model: Callable[..., Model]) -> None:
    reference = Reference(model("f (float[2] x) => (float[2] y) { y = Neg (x) }"))
    options = reference._session.get_session_options()
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_an_unknown_rank_cannot_be_compared(model: Callable[..., Model]) -> None:
    unranked = model("g (float[N] x) => (float[N] y) { y = Relu (x) }")
    unranked.graph.inputs[0].shape = None
    with pytest.raises(NotRunnableError, match="an input has no known rank"):
        Equivalence(unranked)


def test_the_reference_names_the_node_that_fails(model: Callable[..., Model]) -> None:
    reference = Reference(model("g (float[A] x, float[B] z) => (float[C] y) { [sum] y = Add (x, z) }"))
    with pytest.raises(NotRunnableError) as caught:
        reference.run({"x": np.ones(3, np.float32), "z": np.ones(4, np.float32)})
    assert str(caught.value).startswith("node sum: ONNX Runtime cannot execute it: ")
    assert ".h:" not in str(caught.value)


def test_the_reference_computes(model: Callable[..., Model]) -> None:
    outputs = Reference(model("g (float[2] x) => (float[2] y, float[2] z) { y = Neg (x) z = Abs (x) }")).run(
        {"x": np.float32([1, -2])}
    )
    np.testing.assert_array_equal(outputs["y"], [-1, 2])
    np.testing.assert_array_equal(outputs["z"], [1, 2])


@pytest.mark.parametrize("limit", [2**31, 64], ids=["mapped", "too large for one message"])
def test_the_reference_takes_tensors_in_files(
    onnx_model: OnnxModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr("edgekit.execution.reference.PROTOBUF_LIMIT", limit)
    weights = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
    graph = "g (float[1, 40] x) => (float[1, 30] y) { a = MatMul (x, w) y = Add (a, b) }"
    proto = onnx_model(graph, w=weights, b=np.ones(30, np.float32))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=1000)
    x = np.ones((1, 40), np.float32)
    outputs = Reference(Model(ir.load(tmp_path / "m.onnx"))).run({"x": x})
    np.testing.assert_allclose(outputs["y"], x @ weights + 1, rtol=1e-5)


def test_a_small_model_is_tried_on_every_kind_of_input_and_a_large_one_on_three(model, monkeypatch) -> None:
    drawn: list[str] = []

    def drawing(specs, kind, *rest, **options):
        drawn.append(kind)
        return battery_inputs(specs, kind, *rest, **options)

    monkeypatch.setattr("edgekit.execution.equivalence.battery_inputs", drawing)
    graph = "f (float[8, 8] x) => (float[8, 8] y) { y = MatMul(x, x) }"
    changed = "f (float[8, 8] x) => (float[8, 8] y) { m = Neg(x) n = Neg(m) y = MatMul(n, x) }"
    assert Equivalence(model(graph)).difference_of_whole(model(changed)) is None
    assert set(drawn) == set(KINDS)
    drawn.clear()
    monkeypatch.setattr("edgekit.execution.equivalence.BATTERY_MACS", 8**3)
    assert Equivalence(model(graph)).difference_of_whole(model(changed)) is None
    assert set(drawn) == set(KINDS[:3])


def test_both_branches_of_a_large_change_are_executed(model: Callable[..., Model], monkeypatch) -> None:
    """The first three kinds of drawn inputs, the only ones for large changes, are false for an input of this name."""
    monkeypatch.setattr("edgekit.execution.equivalence.BATTERY_MACS", 0)
    monkeypatch.setattr("edgekit.execution.local_proof.HEAVY_ELEMENTS", 1)
    graph = """g (float[4] x, bool flag) => (float[4] y) {
        y = If (flag) <then_branch = t () => (float[4] a) { THEN }, else_branch = e () => (float[4] b) { b = Neg (x) }>
    }"""
    before = Equivalence(model(graph.replace("THEN", "a = Abs (x)")))
    assert before.difference(model(graph.replace("THEN", "z = Neg (x) a = Max (x, z)"))) is None
    assert before.difference(model(graph.replace("THEN", "z = Neg (x) a = Min (x, z)"))) is not None


def test_a_loop_that_changed_is_executed_once_however_many_values_come_from_it(
    model: Callable[..., Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = """g (float[2] x) => (float[2] y, float[2] z, float[2] u) {
        n = Constant <value = int64 {3}> ()
        y, z, u = Loop (n, , x, x, x) <body = b (int64 i, bool k, float[2] p, float[2] q, float[2] r)
            => (bool go, float[2] s, float[2] t, float[2] v)
            { go = Identity (k) s = Add (p, q) t = Mul (q, r) BODY }>
    }"""
    before = Equivalence(model(graph.replace("BODY", "v = Sub (r, p)")))
    executed: list[int] = []

    def executing(self: Reference, executed_model: Model, **options: bool) -> None:
        executed.append(sum(node.op_type == "Loop" for node in executed_model.graph))
        original(self, executed_model, **options)

    original = Reference.__init__
    monkeypatch.setattr(Reference, "__init__", executing)
    assert before.difference(model(graph.replace("BODY", "w = Neg (p) v = Add (r, w)"))) is None
    assert set(executed) == {1}
    assert str(before.difference(model(graph.replace("BODY", "v = Add (r, p)")))).startswith("output y differs by ")


BLOCKS = """<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]>
g (float[4, 32] x) => (float[4, 8] y) <uint8[8, 1, 16] w, float[8] scales> {
    h = Mul (x, x)
    y = com.microsoft.MatMulNBits <K = 32, N = 8, bits = 4, block_size = 32, accuracy_level = 4> (h, w, scales)
}"""


def test_products_in_blocks_are_compared_in_floats() -> None:
    """ONNX Runtime rounds their other factor to 8 bits: a move of the last place would be one of a step."""
    proto = onnx.parser.parse_model(BLOCKS)
    rng = np.random.default_rng(0)
    del proto.graph.initializer[:]
    scales, packed = rng.random(8).astype(np.float32), rng.integers(0, 256, (8, 1, 16)).astype(np.uint8)
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in {"w": packed, "scales": scales}.items()
    )
    model = Model(ir.from_proto(proto))
    (found,) = Equivalence(model).outputs.values()
    (x,) = battery_inputs(model.inputs, KINDS[0]).values()
    numbers = np.stack([packed & 0xF, packed >> 4], axis=-1).reshape(8, 32).astype(np.float64) - 8
    np.testing.assert_allclose(found, np.float64(x) ** 2 @ (numbers * scales[:, None]).T, rtol=1e-5)


def test_which_of_nearly_equal_numbers_is_the_greatest_hangs_on_the_rounding_of_one_node(
    model: Callable[..., Model],
) -> None:
    """Matchers of points take the greatest of sums that differ in their last digit where the inputs are tiny."""
    graph = """g (float[200, 64, 7] x) => (int64[200] best) <int64[1] axes = {2}>
        { %s best = ArgMax <axis = 1, keepdims = 0> (sums) }"""
    before = infer_shapes(model(graph % "sums = ReduceLogSumExp <keepdims = 0> (x, axes)", opset=18))
    by_steps = """m = ReduceMax (x, axes) d = Sub (x, m) e = Exp (d) s = ReduceSum (e, axes) l = Log (s) t = Add (l, m)
        sums = Squeeze (t, axes)"""
    assert Equivalence(before).difference(infer_shapes(model(graph % by_steps, opset=18))) is None
    other = by_steps.replace("Exp (d)", "Softplus (d)")
    assert Equivalence(before).difference(infer_shapes(model(graph % other, opset=18))) is not None
