from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator
from onnxscript.rewriter.rules import common

from edgekit.graph.simplification.patterns import PATTERNS
from edgekit.model import Model
from edgekit.stages import StageResult
from edgekit.stages import simplify as simplify_module
from edgekit.stages.load import Load
from edgekit.stages.simplify import Simplify

WriteOnnx = Callable[..., Path]

RNG = np.random.default_rng(0)
CONV_BATCH_NORM = """g (float[1, 3, 8, 8] x) => (float[1, 4, 6, 6] y) {
    c = Conv (x, w)
    n = BatchNormalization (c, scale, bias, mean, var)
    i = Identity (n)
    y = Relu (i)
}"""
CONV_BATCH_NORM_WEIGHTS = {
    "w": RNG.standard_normal((4, 3, 3, 3)).astype(np.float32),
    "scale": RNG.standard_normal(4).astype(np.float32),
    "bias": RNG.standard_normal(4).astype(np.float32),
    "mean": RNG.standard_normal(4).astype(np.float32),
    "var": (RNG.random(4) + 0.5).astype(np.float32),
}


def load(path: Path) -> Model:
    return Load()(path).model


def operators(result: StageResult) -> list[str]:
    return [node.op_type for node in result.model.graph]


def test_batch_normalization_goes_into_the_convolution(onnx_file: WriteOnnx) -> None:
    path = onnx_file(CONV_BATCH_NORM, **CONV_BATCH_NORM_WEIGHTS)
    result = Simplify()(load(path))
    assert operators(result) == ["Conv", "Relu"]
    assert (result.record["nodes_before"], result.record["nodes_after"]) == (4, 2)
    assert result.warnings == ()
    x = RNG.standard_normal((1, 3, 8, 8)).astype(np.float32)
    expected = ReferenceEvaluator(str(path)).run(None, {"x": x})[0]
    found = ReferenceEvaluator(result.model.proto()).run(None, {"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_an_old_softmax_of_constants_is_folded(onnx_file: WriteOnnx) -> None:
    numbers = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    text = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { s = Softmax (w) y = Mul (x, s) }"
    result = Simplify()(load(onnx_file(text, opset=11, w=numbers)))
    assert operators(result) == ["Mul"]
    assert result.warnings == ()
    shares = np.exp(numbers) / np.exp(numbers).sum(axis=(1, 2), keepdims=True)
    found = ReferenceEvaluator(result.model.proto()).run(None, {"x": np.ones((2, 3, 4), np.float32)})[0]
    np.testing.assert_allclose(found, shares, rtol=1e-5)


def test_a_loop_without_condition_and_states_is_simplified(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x, int64 n) => (float[N, 2] y) { y = Loop (n, go) <'
        "body = b (int64 i, bool on) => (bool more, float[2] s) "
        "{ more = Identity(on) t = Identity(x) s = Add(t, x) }> }"
    )
    proto.graph.node[0].input[1] = ""
    onnx.save(proto, tmp_path / "loop.onnx")
    result = Simplify()(load(tmp_path / "loop.onnx"))
    assert result.warnings == ()
    feeds = {"x": np.float32([1, 2]), "n": np.array(3)}
    found = ReferenceEvaluator(result.model.proto()).run(None, feeds)[0]
    np.testing.assert_array_equal(found, [[2, 4]] * 3)


def test_what_nothing_uses_and_what_is_there_twice_goes(onnx_file: WriteOnnx) -> None:
    graph = """g (float[1, 4] x) => (float[1, 4] y) {
        unused = Exp (x)
        a = MatMul (x, w)
        b = MatMul (x, v)
        y = Add (a, b)
    }"""
    weights = RNG.standard_normal((4, 4)).astype(np.float32)
    result = Simplify()(load(onnx_file(graph, w=weights, v=weights.copy())))
    assert "Exp" not in operators(result)
    assert len(result.model.graph.initializers) == 1


def test_constants_are_folded(onnx_file: WriteOnnx) -> None:
    graph = "g (float[1, 4] x) => (float[1, 4] y) { s = Sqrt (c) t = Neg (s) y = Mul (x, t) }"
    result = Simplify()(load(onnx_file(graph, c=np.array([4, 9, 16, 25], np.float32))))
    assert operators(result) == ["Mul"]
    (constant,) = result.model.graph.initializers.values()
    assert constant.const_value is not None
    np.testing.assert_array_equal(constant.const_value.numpy(), [-2, -3, -4, -5])


def test_constants_that_do_not_enlarge_the_model_are_folded_once(
    onnx_file: WriteOnnx, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded: list[int] = []
    fold = simplify_module.fold_constants

    def counted(graph_model: ir.Model, **options: Any) -> Any:
        folded.append(sum(1 for _ in graph_model.graph))
        return fold(graph_model, **options)

    monkeypatch.setattr(simplify_module, "fold_constants", counted)
    monkeypatch.setattr(simplify_module, "_PASSES", {"fold constants": simplify_module._PASSES["fold constants"]})
    nodes = "six = Add(three, three) y = Mul(x, six)"
    given = load(onnx_file(f"g (float[2] x) => (float[2] y) <float three = {{3.0}}> {{ {nodes} }}"))
    assert operators(Simplify()(given)) == ["Mul"]
    assert folded == [2]


@pytest.mark.parametrize(
    "producer", ["c = ConstantOfShape (size)", "c = Expand (one, size)", "c = Tile (one, size)"], ids=str.split
)
def test_a_model_does_not_grow_by_folding(onnx_file: WriteOnnx, producer: str) -> None:
    graph = f"g (float[1] x) => (float[400, 400] y) {{ {producer} y = Add (x, c) }}"
    path = onnx_file(graph, size=np.array([400, 400]), one=np.ones((1, 1), np.float32))
    result = Simplify()(load(path))
    assert result.model.weight_bytes < 1000


@pytest.mark.parametrize("weights", [1000, 100_000])
def test_tables_that_are_computed_stay_computed_in_a_model_that_they_would_enlarge(
    onnx_file: WriteOnnx, weights: int
) -> None:
    """A window of 1024 numbers (4 kB) and a spectrum's matrix are nothing beside 400 kB, and all of 4 kB."""
    graph = """g (float[1, 64] x) => (float[1, 64] y, float[1, n] z) {
        t = Range (zero, many, one)
        a = Mul (t, step)
        s = Sin (a)
        c = Cos (a)
        m = Mul (s, c)
        r = Reshape (m, shape)
        v = MatMul (x, r)
        u = MatMul (v, q)
        y = Add (u, x)
        z = MatMul (x, w)
    }""".replace("n]", f"{weights // 64}]")
    path = onnx_file(
        graph,
        zero=np.float32(0),
        many=np.float32(2048),
        one=np.float32(1),
        step=np.float32(0.01),
        shape=np.int64([64, 32]),
        q=np.ones((32, 64), np.float32),
        w=np.ones((64, weights // 64), np.float32),
    )
    loaded = Load()(path).model
    model = Simplify()(loaded).model
    kinds = {node.op_type for node in model.graph}
    assert ("Sin" in kinds) == (weights == 1000)
    assert model.weight_bytes <= 1.05 * loaded.weight_bytes + 4096


def test_a_quantized_model_stays_quantized(onnx_file: WriteOnnx) -> None:
    graph = """g (float[1, 4] x) => (float[1, 3] y) {
        q = QuantizeLinear (x, sx, zx)
        d = DequantizeLinear (q, sx, zx)
        w = DequantizeLinear <axis = 1> (wq, sw, zw)
        y = MatMul (d, w)
    }"""
    path = onnx_file(
        graph,
        sx=np.array(0.05, np.float32),
        zx=np.array(3, np.int8),
        wq=RNG.integers(-127, 128, (4, 3)).astype(np.int8),
        sw=np.array([0.1, 0.2, 0.3], np.float32),
        zw=np.zeros(3, np.int8),
    )
    result = Simplify()(load(path))
    assert operators(result).count("DequantizeLinear") == 2
    assert operators(result).count("QuantizeLinear") == 1


def test_a_dynamic_model_is_simplified_too(onnx_file: WriteOnnx) -> None:
    graph = CONV_BATCH_NORM.replace("[1, 3, 8, 8]", "[N, 3, H, W]").replace("[1, 4, 6, 6]", "[N, 4, OH, OW]")
    result = Simplify()(load(onnx_file(graph, **CONV_BATCH_NORM_WEIGHTS)))
    assert operators(result) == ["Conv", "Relu"]
    assert result.model.inputs[0].shape == ("N", 3, "H", "W")


def wrong_sign(graph_model: ir.Model) -> None:
    for node in graph_model.graph:
        if node.op_type == "Relu":
            node.op_type = "Neg"


def raises(graph_model: ir.Model) -> None:
    del graph_model
    raise KeyError("left over")


def test_a_pass_that_changes_an_output_is_dropped(onnx_file: WriteOnnx, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = {"wrong": wrong_sign, "raises": raises, **simplify_module._PASSES}
    monkeypatch.setattr(simplify_module, "_PASSES", passes)
    result = Simplify()(load(onnx_file(CONV_BATCH_NORM, **CONV_BATCH_NORM_WEIGHTS)))
    assert operators(result) == ["Conv", "Relu"]
    first, second = result.warnings
    assert first.startswith("the pass 'wrong' was dropped: output y differs by ")
    assert second == "the pass 'raises' was dropped: KeyError: 'left over'"
    dropped = {entry["name"]: entry["dropped"] for entry in result.record["passes"]}
    assert dropped["wrong"] is not None
    assert dropped["fuse patterns"] is None


def test_a_pass_that_says_it_changed_nothing_leaves_its_graph_to_the_next_one(
    onnx_file: WriteOnnx, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs: list[ir.Model] = []

    def nothing(graph_model: ir.Model) -> bool:
        graphs.append(graph_model)
        return False

    def renamed(graph_model: ir.Model) -> None:
        nothing(graph_model)
        graph_model.graph.node(0).name = "another"

    monkeypatch.setattr(simplify_module, "_PASSES", {"a": nothing, "b": nothing, "c": renamed, "d": nothing})
    result = Simplify()(load(onnx_file(CONV_BATCH_NORM, **CONV_BATCH_NORM_WEIGHTS)))
    first, second, third, last = graphs
    assert first is second is third is not last
    assert result.model.graph.node(0).name != "another"
    assert [entry["dropped"] for entry in result.record["passes"]] == [None] * 4


def full(_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_no_fault_of_a_pass(onnx_file: WriteOnnx, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the pass the same command would build another file than with some space left."""
    monkeypatch.setattr(simplify_module, "_PASSES", {"full": full, **simplify_module._PASSES})
    with pytest.raises(OSError, match="No space left on device"):
        Simplify()(load(onnx_file(CONV_BATCH_NORM, **CONV_BATCH_NORM_WEIGHTS)))


@pytest.mark.parametrize("node", ["Add (x, e)", "Sub (x, e)", "Mul (x, f)", "Div (x, f)"], ids=str.split)
def test_a_constant_that_is_near_to_nothing_stays(onnx_file: WriteOnnx, node: str) -> None:
    graph = f"g (float[1, 8] x) => (float[1, 8] y) {{ a = {node} y = Log (a) }}"
    path = onnx_file(graph, e=np.array(1e-10, np.float32), f=np.array(1.000001, np.float32))
    assert operators(Simplify()(load(path))) == [node.split()[0], "Log"]


@pytest.mark.parametrize("node", ["Add (x, zero)", "Add (zero, x)", "Sub (x, zero)", "Mul (one, x)", "Div (x, one)"])
def test_a_constant_that_changes_nothing_goes(onnx_file: WriteOnnx, node: str) -> None:
    graph = f"g (float[1, 8] x) => (float[1, 8] y) {{ a = {node} y = Log (a) }}"
    path = onnx_file(graph, zero=np.array(0, np.float32), one=np.array(1, np.float32))
    assert operators(Simplify()(load(path))) == ["Log"]


def test_a_pattern_that_is_wrong_is_dropped_without_the_others(
    onnx_file: WriteOnnx, monkeypatch: pytest.MonkeyPatch
) -> None:
    patterns = {name: rules for name, rules in PATTERNS.items() if name != "add 0"}
    monkeypatch.setattr("edgekit.graph.simplification.patterns.PATTERNS", {"add 0": [common.add_0_rule], **patterns})
    graph = """g (float[1, 3, 8, 8] x) => (float[1, 4, 6, 6] y, float[1, 3, 8, 8] z) {
        c = Conv (x, w)
        y = BatchNormalization (c, scale, bias, mean, var)
        a = Add (x, e)
        z = Log (a)
    }"""
    path = onnx_file(graph, e=np.array(1e-10, np.float32), **CONV_BATCH_NORM_WEIGHTS)
    result = Simplify()(load(path))
    assert operators(result) == ["Conv", "Add", "Log"]
    (warning,) = result.warnings
    assert warning.startswith("the pass 'fuse patterns: add 0' was dropped: ")


@pytest.mark.parametrize("opset", [11, 17])
def test_the_shape_of_a_reshape_that_is_known_but_for_one_size_is_a_constant(onnx_file: WriteOnnx, opset: int) -> None:
    graph = """g (float[n, 2, 4] x) => (float[n, 8] y) {
        s = Shape (x)
        n = Gather (s, first)
        t = Concat <axis = 0> (n, rest)
        y = Reshape (x, t)
    }"""
    path = onnx_file(graph, opset=opset, first=np.array([0]), rest=np.array([8]))
    result = Simplify()(load(path))
    assert operators(result) == ["Constant", "Reshape"]
    assert not result.warnings


SIXTH = np.float32(1 / 6)
NUMBERS = {"three": np.float32(3), "zero": np.float32(0), "six": np.float32(6), "sixth": SIXTH}


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("between", ["", "e = Exp (t)"])
@pytest.mark.parametrize("size", [5, 6])
def test_halves_of_an_axis_are_left_without_a_warning(
    onnx_file: WriteOnnx, size: int, between: str, opset: int
) -> None:
    ends = {"zero": np.array([0]), "half": np.array([size // 2]), "end": np.array([size]), "axis": np.array([1])}
    graph = f"""g (float[2, {size}] x) => (float[2, {size}] y) {{
        t = Slice (x, half, end, axis) {between}
        s = Slice (x, zero, half, axis)
        y = Concat <axis = 1> ({"e" if between else "t"}, s)
    }}"""
    path = onnx_file(graph, opset=opset, **ends)
    result = Simplify()(load(path))
    assert result.warnings == ()
    x = RNG.standard_normal((2, size)).astype(np.float32)
    last = np.exp(x[:, size // 2 :]) if between else x[:, size // 2 :]
    found = ReferenceEvaluator(result.model.proto()).run(None, {"x": x})[0]
    np.testing.assert_allclose(found, np.concatenate([last, x[:, : size // 2]], 1), rtol=1e-6)


@pytest.mark.parametrize("opset", [11, 13, 17])
@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("a = Add (x, three) b = Clip (a, zero, six) c = Mul (x, b) y = Div (c, six)", ["HardSigmoid", "Mul"]),
        ("a = Add (three, x) b = Clip (a, zero, six) c = Mul (b, x) y = Mul (sixth, c)", ["HardSigmoid", "Mul"]),
        ("a = Add (x, three) b = Clip (a, zero, six) c = Div (b, six) y = Mul (x, c)", ["HardSigmoid", "Mul"]),
        ("a = Add (x, three) b = Clip (a, zero, six) y = Mul (b, sixth)", ["HardSigmoid"]),
        ("a = Add (x, three) b = Clip (a, zero, six) y = Div (b, three)", ["Add", "Clip", "Div"]),
        ("a = Add (x, three) b = Clip (a, zero, six) y = Div (six, b)", ["Add", "Clip", "Div"]),
        ("a = Add (x, six) b = Clip (a, zero, six) y = Div (b, six)", ["Add", "Clip", "Div"]),
        ("a = Add (x, three) b = Clip (a, three, six) y = Div (b, six)", ["Add", "Clip", "Div"]),
        ("a = Add (x, three) b = Clip (a, zero, six) n = Neg (x) c = Mul (n, b) y = Div (c, six)", None),
    ],
)
def test_a_hard_sigmoid_in_parts(onnx_file: WriteOnnx, nodes: str, expected: list[str] | None, opset: int) -> None:
    graph = f"g (float[2, 4] x) => (float[2, 4] y) {{ {nodes} }}"
    path = onnx_file(graph, opset=opset, **{name: number for name, number in NUMBERS.items() if name in nodes})
    result = Simplify()(load(path))
    assert result.warnings == ()
    assert operators(result) == (expected or ["Add", "Clip", "Neg", "Mul", "Div"])
    feeds = {"x": np.float32([[-4, -3, -1, 0], [1, 2.5, 3, 5]])}
    (found,) = ReferenceEvaluator(result.model.proto()).run(None, feeds)
    np.testing.assert_allclose(found, ReferenceEvaluator(onnx.load(path)).run(None, feeds)[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1)])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_scale_and_a_shift_behind_convolutions_that_share_their_weights(
    onnx_file: WriteOnnx, shape: tuple[int, ...], swapped: bool
) -> None:
    """Each gets weights of its own."""
    products = ("Mul (s, c)", "Add (t, m)") if swapped else ("Mul (c, s)", "Add (m, t)")
    graph = f"""g (float[1, 3, 8, 8] x) => (float[1, 4, 6, 6] y, float[1, 4, 6, 6] z) {{
        c = Conv (x, w, b)
        m = {products[0]}
        y = {products[1]}
        d = Conv (x, w, b)
        n = Mul (d, t)
        z = Add (n, s)
    }}"""
    weights = {"w": CONV_BATCH_NORM_WEIGHTS["w"], "b": np.float32([1, -2, 3, -4])}
    numbers = {"s": np.full(shape, 0.5, np.float32), "t": np.full(shape, -3, np.float32)}
    path = onnx_file(graph, **weights, **numbers)
    result = Simplify()(load(path))
    assert result.warnings == ()
    feeds = {"x": RNG.standard_normal((1, 3, 8, 8)).astype(np.float32)}
    found = ReferenceEvaluator(result.model.proto()).run(None, feeds)
    for ours, theirs in zip(found, ReferenceEvaluator(onnx.load(path)).run(None, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_shift_before_a_convolution_that_pads_stays(onnx_file: WriteOnnx) -> None:
    graph = """g (float[1, 3, 8, 8] x) => (float[1, 4, 8, 8] y) {
        m = Mul (x, s)
        a = Add (m, t)
        y = Conv <PADS> (a, w, b)
    }"""
    weights = {"w": CONV_BATCH_NORM_WEIGHTS["w"], "b": np.zeros(4, np.float32)}
    numbers = {"s": np.float32(0.5), "t": np.float32(2)}
    for padding in ("pads = [1, 1, 1, 1]", 'auto_pad = "SAME_UPPER"'):
        result = Simplify()(load(onnx_file(graph.replace("PADS", padding), **weights, **numbers)))
        assert operators(result) == ["Mul", "Add", "Conv"]


def test_equal_tensors_are_stored_once_however_they_lie_in_memory(onnx_file: WriteOnnx) -> None:
    graph = """g (float[1, 4] x) => (float[1, 4] y) {
        t = Transpose <perm = [1, 0]> (w)
        a = MatMul (x, t)
        b = MatMul (a, v)
        y = MatMul (b, t)
    }"""
    weights = RNG.standard_normal((4, 4)).astype(np.float32)
    result = Simplify()(load(onnx_file(graph, w=weights, v=np.ascontiguousarray(weights.T))))
    assert result.warnings == ()
    assert len(result.model.graph.initializers) == 1


def test_a_branch_that_hands_on_an_outer_value_keeps_its_identity(onnx_file: WriteOnnx) -> None:
    graph = """g (bool c, float[4] x) => (float[4] y) {
        a = Neg (x)
        o = If (c) <
            then_branch = t () => (float[4] p) { p = Identity (a) },
            else_branch = e () => (float[4] q) { r = Abs (a) q = Identity (r) }
        >
        y = Identity (o)
    }"""
    result = Simplify()(load(onnx_file(graph)))
    assert result.warnings == ()
    assert [node.op_type for node in result.model.graph.all_nodes()] == ["Neg", "If", "Identity", "Abs"]
    for flag in (True, False):
        feeds = {"c": np.array(flag), "x": np.float32([1, -2, 3, 0])}
        (found,) = ReferenceEvaluator(result.model.proto()).run(None, feeds)
        np.testing.assert_array_equal(found, -feeds["x"] if flag else np.abs(feeds["x"]))


def test_what_cannot_be_executed_stays_as_it_is(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "vendor": 1]>
        g (float[1, 4] x) => (float[1, 4] y) { i = Identity (x) y = vendor.Secret (i) }"""
    )
    onnx.save(model, tmp_path / "model.onnx")
    result = Simplify()(load(tmp_path / "model.onnx"))
    assert operators(result) == ["Identity", "Secret"]
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith("not simplified, because outputs could not be compared: ")


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_constants_that_are_infinite_are_folded_without_a_warning(onnx_file: WriteOnnx) -> None:
    graph = """g (float[1, 4] x) => (float[1, 4] y) <float zero = {0}, float one = {1}> {
        infinite = Div (one, zero)
        nothing = Log (zero)
        both = Max (infinite, nothing)
        y = Min (x, both)
    }"""
    assert operators(Simplify()(load(onnx_file(graph)))) == ["Min"]


def test_many_columns_are_reduced_at_once_where_one_of_them_tells_a_size_too(onnx_file: WriteOnnx) -> None:
    pairs = [(first, second) for first in range(8) for second in range(first, 8)]
    last = len(pairs) - 1
    steps = " ".join(
        f"p{n} = Gather <axis = 1> (x, i{n}) r{n} = ReduceProd <axes = [1]> (p{n})" for n in range(last + 1)
    )
    names = ", ".join(f"r{n}" for n in range(last + 1))
    path = onnx_file(
        f"""g (float[n, 8] x) => (float[n, {last + 2}] y) {{ {steps} size = Shape (r{last})
        ones = ConstantOfShape <value = float[1] {{1.0}}> (size) y = Concat <axis = 1> (ones, {names}) }}""",
        opset=13,
        **{f"i{n}": np.array(pair) for n, pair in enumerate(pairs)},
    )
    result = Simplify()(load(path))
    assert result.warnings == ()
    assert operators(result).count("Gather") == 2
    x = RNG.standard_normal((3, 8)).astype(np.float32)
    expected = np.stack([np.ones(3, np.float32), *(x[:, first] * x[:, second] for first, second in pairs)], axis=1)
    found = ReferenceEvaluator(result.model.proto()).run(None, {"x": x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
