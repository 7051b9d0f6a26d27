"""The quantizer as a whole, on a network whose task it can be scored on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import edgekit
from edgekit.data.samples import Sample
from edgekit.errors import InputError, RequirementError
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Model
from edgekit.quantizer import BudgetError, QuantizationRequest
from edgekit_quantize.calibration.statistics import calibrate
from edgekit_quantize.graph.session import SessionRunner
from edgekit_quantize.placement import place
from edgekit_quantize.plugin import PostTrainingQuantizer
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.candidate import write

CNN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, 12, 12] x) => (float[1, 5] y) {
  c = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)
  n = BatchNormalization(c, gamma, beta, mean, variance)
  h = HardSwish(n)
  d = Conv<group = 16, pads = [1, 1, 1, 1]>(h, w2)
  r = Relu(d)
  p = GlobalAveragePool(r)
  f = Flatten(p)
  m = MatMul(f, w3)
  y = Add(m, b3)
}"""


class Drawn:
    """Samples drawn anew, and alike, on every walk."""

    has_labels = False

    def __init__(self, count: int = 16, scale: float = 1.0) -> None:
        self._count, self._scale = count, scale

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        rng = np.random.default_rng(3)
        for number in range(self._count):
            data = rng.normal(size=(1, 3, 12, 12)) * self._scale * rng.uniform(0.2, 2)
            yield Sample(str(number), {"x": data.astype(np.float32)})


@pytest.fixture
def cnn(parse: Callable[..., ir.Model], rng: np.random.Generator) -> Model:
    shapes = {
        "w1": (16, 3, 3, 3),
        "b1": (16,),
        "w2": (16, 1, 3, 3),
        "w3": (16, 5),
        "b3": (5,),
        "beta": (16,),
        "mean": (16,),
    }
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    wide = {name: rng.uniform(0.2, 5, 16).astype(np.float32) for name in ("gamma", "variance")}
    return Model(parse(CNN, **arrays, **wide))


def _request(model: Model, **more: Any) -> QuantizationRequest:
    given: dict[str, Any] = {"scheme": "int8", "samples": Drawn(), "max_drop": 0.2}
    return QuantizationRequest(model, **{**given, **more})


def test_integers_stand_for_the_float_model(cnn: Model, execute: Callable[..., list[np.ndarray]]) -> None:
    result = PostTrainingQuantizer().quantize(_request(cnn))

    onnx.checker.check_model(result.model.proto(), full_check=True)
    assert result.record["scheme"] == "int8"
    assert len(result.record["quantized"]) == 2
    for sample in Drawn():
        expected, found = (execute(model.graph_model, sample.feeds)[0] for model in (cnn, result.model))
        assert np.linalg.norm(found - expected) < 0.05 * np.linalg.norm(expected)


def test_int8_says_that_it_stores_weights_alone_where_the_target_has_nothing_else(cnn: Model) -> None:
    placement = {"candidates": [{"name": "weights only", "layers": {"Conv": "weights", "Gemm": "weights"}}]}
    record = PostTrainingQuantizer().quantize(_request(cnn, placement=placement)).record

    assert record["scheme"] == "int8-weights"
    told = (
        "int8 only stores weights as integers here, as int8-weights does: no layer of the model computes with integers"
    )
    assert told in record["warnings"]
    auto = PostTrainingQuantizer().quantize(_request(cnn, scheme="auto", placement=placement)).record
    assert told not in auto["warnings"]


def test_int8_never_means_weights_alone_where_the_target_computes_with_integers(cnn: Model) -> None:
    placement = {
        "candidates": [
            {"name": "weights only", "layers": {"Conv": "weights", "DepthwiseConv": "weights", "Gemm": "weights"}},
            {"name": "integers", "layers": {"Conv": "input", "Gemm": "input"}},
        ]
    }
    asked = PostTrainingQuantizer().quantize(_request(cnn, placement=placement)).record
    free = PostTrainingQuantizer().quantize(_request(cnn, placement=placement, scheme="auto")).record

    assert {point["candidate"] for point in asked["curve"]} == {"integers"}
    assert asked["quantized"]
    assert {point["candidate"] for point in free["curve"]} == {"integers", "weights only"}


def test_a_choice_that_is_one_with_another_candidate_of_this_model_is_repeated(cnn: Model) -> None:
    convolutions = {"Conv": "input", "Gemm": "input"}
    placement = {
        "candidates": [
            {"name": "integers", "layers": convolutions},
            {"name": "integers, LSTM too", "layers": {**convolutions, "LSTM": "dynamic"}},
        ]
    }
    request = _request(cnn, placement=placement, scheme="auto", max_drop=1.0, choice="integers, LSTM too")

    assert PostTrainingQuantizer().quantize(request).record["chosen"] == "integers"


@pytest.mark.parametrize(("metric", "allowed"), [("agreement", 0.01), ("explained", 0.003)])
def test_what_may_be_lost_where_no_budget_is_named(parse: Callable[..., ir.Model], metric: str, allowed: float) -> None:
    last = "y = Softmax(m)" if metric == "agreement" else "y = Tanh(m)"
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 12, 12] x) => (float[1, 432] y) {{ f = Flatten(x)  m = MatMul(f, w)  {last} }}"""
    model = Model(parse(text, w=np.eye(432, dtype=np.float32)))

    record = PostTrainingQuantizer().quantize(_request(model, max_drop=None, scheme="auto")).record

    assert (record["max_drop"], record["curve"][0]["metric"]) == (allowed, metric)


@pytest.mark.parametrize("size", [8, 96])
def test_weights_that_are_kept_in_half_precision_are_quantized_whatever_their_size(
    parse: Callable[..., ir.Model], rng: np.random.Generator, size: int
) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 12, 12] x) => (float[1, 3, 12, {size}] y) {{ w = Cast<to = 1>(h)  y = MatMul(x, w) }}"""
    model = Model(parse(text, h=rng.normal(size=(12, size)).astype(np.float16)))
    assert len(PostTrainingQuantizer().quantize(_request(model)).record["quantized"]) == 1


def test_layers_that_share_weights_may_become_different_things(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    """One of them multiplies integers, the other stores the same integers: each under a name of its own."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 40] x) => (float[1, 40] y) { h = MatMul(x, w)  t = Tanh(h)  y = MatMul(t, w) }"""
    model = parse(text, w=rng.normal(size=(40, 40)).astype(np.float32) / 6)
    settings = Settings.read({"layers": {"MatMul": "input"}})
    first, second = place(model.graph, settings).layers
    data = {"x": rng.normal(size=(1, 40)).astype(np.float32)}
    wanted = {layer.data.name: [layer.input_axis] for layer in (first, second)}
    tensors = calibrate(model, wanted, [(data, None)], 1).tensors

    written = write(model, settings, tensors, keep_float=[second.name])

    onnx.checker.check_model(ir.to_proto(written.model), full_check=True)
    assert (written.quantized, written.stored) == ([first.name], [second.name])
    (exact,), (found,) = execute(model, data), execute(written.model, data)
    assert np.linalg.norm(found - exact) < 0.03 * np.linalg.norm(exact)


def test_inputs_and_outputs_stay(cnn: Model) -> None:
    result = PostTrainingQuantizer().quantize(_request(cnn))

    assert (result.model.inputs, result.model.outputs) == (cnn.inputs, cnn.outputs)


def test_the_same_samples_give_the_same_model(cnn: Model) -> None:
    first, second = (PostTrainingQuantizer().quantize(_request(cnn)).model.proto() for _ in range(2))

    assert first.SerializeToString() == second.SerializeToString()


def test_weights_alone_need_no_samples(
    parse: Callable[..., ir.Model], rng: np.random.Generator, execute: Callable[..., list[np.ndarray]]
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 32] x) => (float[1, 32] y) { y = MatMul(x, w) }"""
    model = Model(parse(text, w=rng.normal(size=(32, 32)).astype(np.float32)))
    result = PostTrainingQuantizer().quantize(_request(model, scheme="int8-weights", samples=None))

    feeds = {"x": rng.normal(size=(1, 32)).astype(np.float32)}
    expected, found = (execute(each.graph_model, feeds)[0] for each in (model, result.model))
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())
    assert not result.record["quantized"]
    assert len(result.record["stored"]) == 1


def test_activations_need_samples(cnn: Model) -> None:
    with pytest.raises(InputError, match="needs samples"):
        PostTrainingQuantizer().quantize(_request(cnn, samples=None))


def test_few_samples_are_told_in_the_record(cnn: Model) -> None:
    record = PostTrainingQuantizer().quantize(_request(cnn, samples=Drawn(3))).record

    assert any("3 calibration samples" in warning for warning in record["warnings"])


class _Alike(Drawn):
    """Samples that all hold the same numbers."""

    def __iter__(self) -> Iterator[Sample]:
        first = next(super().__iter__())
        return iter([Sample(str(number), first.feeds) for number in range(len(self))])


@pytest.mark.parametrize(
    ("scheme", "max_drop", "told"), [("int8", 0.2, True), ("int8-weights", 0.2, False), ("auto", -1.0, False)]
)
def test_a_range_that_may_be_too_narrow_is_told_where_the_model_has_ranges(
    cnn: Model, scheme: str, max_drop: float, told: bool
) -> None:
    record = PostTrainingQuantizer().quantize(_request(cnn, samples=_Alike(), scheme=scheme, max_drop=max_drop)).record

    warned = [warning for warning in record["warnings"] if "'x' is the same in all 16 samples" in warning]
    assert bool(warned) == told


class _WithOne(Drawn):
    """The samples of :class:`Drawn`, and one whose numbers are a thousand times as large."""

    def __iter__(self) -> Iterator[Sample]:
        for sample in super().__iter__():
            far = 1000.0 if sample.name == "5" else 1.0
            yield Sample(sample.name, {"x": sample.feeds["x"] * np.float32(far)})


def test_a_sample_unlike_the_others_is_named_and_decides_no_range(
    cnn: Model, execute: Callable[..., list[np.ndarray]]
) -> None:
    result = PostTrainingQuantizer().quantize(_request(cnn, samples=_WithOne(40)))

    assert result.record["samples"] == 39
    assert "1 sample is left out of calibration and scores: 5: the input 'x' reaches" in result.record["warnings"][0]
    for sample in Drawn(40):
        expected, found = (execute(model.graph_model, sample.feeds)[0] for model in (cnn, result.model))
        assert np.linalg.norm(found - expected) < 0.05 * np.linalg.norm(expected)


def test_a_budget_that_nothing_holds_is_refused_with_the_curve(cnn: Model) -> None:
    request = _request(cnn, placement={"candidates": [{"name": "coarse", "layers": {"Conv": "input"}}]}, max_drop=-1.0)

    with pytest.raises(RequirementError, match="no candidate holds the accuracy budget") as caught:
        PostTrainingQuantizer().quantize(request)
    assert re.search(r"^  coarse +explained ", str(caught.value), re.MULTILINE)


def test_auto_keeps_float_and_says_why_when_nothing_holds_the_budget(cnn: Model) -> None:
    result = PostTrainingQuantizer().quantize(_request(cnn, scheme="auto", max_drop=-1.0))

    assert result.record["scheme"] == "none"
    assert result.record["reason"] == "no candidate holds the accuracy budget, at most -100.00% lost"
    assert result.model is cnn


def test_a_model_without_weights_stays_as_it_is_and_no_candidate_of_it_is_executed(
    parse: Callable[..., ir.Model],
) -> None:
    def execute(_: Model) -> SessionRunner:
        raise AssertionError("a candidate was opened")

    header = '<ir_version: 8, opset_import: ["" : 17]>'
    model = Model(parse(f"{header} g (float[1, 3, 12, 12] x) => (float[1, 3, 12, 12] y) {{ y = Exp(x) }}"))

    result = PostTrainingQuantizer().quantize(_request(model, scheme="auto", max_drop=None, execute=execute))

    assert result.model is model
    assert result.record == {
        "scheme": "none",
        "reason": "the model has no weights that could be stored in fewer bits",
        "samples": 16,
        "warnings": [],
    }


def test_labels_are_what_counts_where_there_are_some(cnn: Model, execute: Callable[..., list[np.ndarray]]) -> None:
    class Labelled(Drawn):
        has_labels = True

        def __iter__(self) -> Iterator[Sample]:
            for sample in super().__iter__():
                label = int(execute(cnn.graph_model, sample.feeds)[0].argmax())
                yield Sample(sample.name, sample.feeds, label)

    record = PostTrainingQuantizer().quantize(_request(cnn, samples=Labelled())).record

    assert record["curve"][0]["metric"] == "accuracy"
    assert record["curve"][0]["float_value"] == 1.0


def test_weights_in_half_precision_behind_a_cast_are_quantized(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 12, 12] x) => (float[1, 16, 10, 10] y) { w = Cast<to = 1>(h)  y = Conv(x, w) }"""
    model = Model(parse(text, h=rng.normal(size=(16, 3, 3, 3)).astype(np.float16)))

    result = PostTrainingQuantizer().quantize(_request(model))

    assert len(result.record["quantized"]) == 1
    feeds = next(iter(Drawn())).feeds
    expected, found = (execute(made.graph_model, feeds)[0] for made in (model, result.model))
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())


def test_layers_that_share_their_weights_share_the_integers(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 12, 12] x) => (float[1, 3, 8, 8] y) { c = Conv(x, w)  r = Relu(c)  y = Conv(r, w) }"""
    model = Model(parse(text, w=rng.normal(size=(3, 3, 3, 3)).astype(np.float32)))

    result = PostTrainingQuantizer().quantize(_request(model))

    integers = [
        v for v in result.model.graph.initializers.values() if v.dtype is ir.DataType.INT8 and len(v.shape or ()) == 4
    ]
    assert len(integers) == 1
    feeds = next(iter(Drawn())).feeds
    expected, found = (execute(made.graph_model, feeds)[0] for made in (model, result.model))
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())


def test_what_is_quantized_already_stays(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 12, 12] x) => (float[1, 4, 8, 8] y) {
      w = DequantizeLinear<axis = 0>(q, s)
      c = Conv(x, w)
      y = Conv(c, v)
    }"""
    model = parse(
        text,
        q=rng.integers(-127, 127, (8, 3, 3, 3)).astype(np.int8),
        s=np.full(8, 0.01, np.float32),
        v=rng.normal(size=(4, 8, 3, 3)).astype(np.float32),
    )

    result = PostTrainingQuantizer().quantize(_request(Model(model)))

    assert len(result.record["quantized"]) == 1
    assert "q" in result.model.graph.initializers
    assert not [told for told in result.record["warnings"] if "quantized already" in told]


@pytest.mark.parametrize(
    ("scheme", "more"),
    [("auto", {}), ("int8-weights", {"samples": None}), ("auto", {"smallest": True, "max_drop": 0.01})],
)
def test_a_model_that_computes_with_integers_is_called_quantized_already(
    parse: Callable[..., ir.Model], rng: np.random.Generator, scheme: str, more: dict[str, Any]
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 12, 12] x) => (float[1, 16, 6, 6] y) {
      r = QuantizeLinear(x, s, z)  d = DequantizeLinear(r, s, z)  w = DequantizeLinear(q, s)
      c = Conv(d, w)  b = QuantizeLinear(c, s, z)  e = DequantizeLinear(b, s, z)  y = Conv(e, v)
    }"""
    arrays = {"q": rng.integers(-127, 127, (8, 3, 3, 3)).astype(np.int8), "s": np.float32(0.03), "z": np.int8(0)}
    model = Model(parse(text, **arrays, v=rng.normal(size=(16, 8, 5, 5)).astype(np.float32)))

    record = PostTrainingQuantizer().quantize(_request(model, scheme=scheme, **more)).record

    assert (
        "the model is quantized already (2 QuantizeLinear), and the accuracy is measured against it: "
        "quantize the float model that it was made from"
    ) in record["warnings"]


def test_branches_do_not_hinder(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 12, 12] x) => (float y) {
      c = Conv(x, w)
      m = ReduceMean<keepdims = 0>(c)
      b = Greater(m, zero)
      y = If(b) <then_branch = t () => (float u) { u = Neg(m) },
                 else_branch = e () => (float v) { v = Identity(m) }>
    }"""
    model = Model(parse(text, w=rng.normal(size=(8, 3, 3, 3)).astype(np.float32), zero=np.array(0, np.float32)))

    result = PostTrainingQuantizer().quantize(_request(model, max_drop=1.0))

    feeds = next(iter(Drawn())).feeds
    expected, found = (execute(made.graph_model, feeds)[0] for made in (model, result.model))
    assert found == pytest.approx(expected, abs=0.02)


def test_matrices_in_four_bits_have_a_scale_a_block(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 12, 12] x) => (float[1, 3, 12, 48] y) { y = MatMul(x, w) }"""
    weights = rng.normal(size=(12, 48)).astype(np.float32)
    model = Model(parse(text, w=weights))

    request = _request(model, scheme="int4-weights", samples=None, placement={"whole_blocks": False})
    result = PostTrainingQuantizer().quantize(request)

    onnx.checker.check_model(result.model.proto(), full_check=True)
    assert ir.DataType.INT4 in {value.dtype for value in result.model.graph.initializers.values()}
    feeds = next(iter(Drawn())).feeds
    expected, found = (execute(made.graph_model, feeds)[0] for made in (model, result.model))
    step = np.abs(weights).max(0) / 7  # one block holds all 12 inputs
    reach = np.abs(feeds["x"]).sum(-1, keepdims=True) * step / 2
    assert (np.abs(found - expected) <= reach * 1.001).all()
    assert np.abs(found - expected).max() > 0


def test_dynamic_products_need_no_samples(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 3, 12, 12] x) => (float[1, 3, 12, 48] y, float[1, 3, 12, 8] z) { y = MatMul(x, w)  z = MatMul(x, v) }"""
    arrays = {"w": rng.normal(size=(12, 48)).astype(np.float32), "v": rng.normal(size=(12, 8)).astype(np.float32)}
    model = Model(parse(text, **arrays))

    result = PostTrainingQuantizer().quantize(_request(model, scheme="int8-dynamic", samples=None))

    onnx.checker.check_model(result.model.proto(), full_check=True)
    operators = [node.op_type for node in result.model.graph]
    assert (operators.count("DynamicQuantizeLinear"), operators.count("MatMulInteger")) == (1, 2)
    for sample in Drawn(4):
        expected, found = (execute(made.graph_model, sample.feeds) for made in (model, result.model))
        for right, near in zip(expected, found, strict=True):
            assert np.linalg.norm(near - right) < 0.02 * np.linalg.norm(right)


def test_candidates_are_timed_beside_the_float_model_in_the_form_that_ships(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    """Beside a float model in parts that a runtime is slow with, whatever has them in one would pass as faster."""
    text = CNN.replace("h = HardSwish(n)", "g = HardSigmoid<alpha = 0.16666667, beta = 0.5>(n) h = Mul(n, g)")
    shapes = dict.fromkeys(("b1", "gamma", "beta", "mean", "variance"), (16,))
    arrays = {"w1": (16, 3, 3, 3), "w2": (16, 1, 3, 3), "w3": (16, 5), "b3": (5,), **shapes}
    model = Model(
        parse(text, **{name: rng.uniform(0.2, 1, shape).astype(np.float32) for name, shape in arrays.items()})
    )
    opened: list[list[str]] = []

    def execute(form: Model) -> SessionRunner:
        opened.append([node.op_type for node in form.graph])
        return SessionRunner(form.graph_model)

    placement = {"candidates": [{"name": "integers", "layers": {"Conv": "both", "MatMul": "input"}}]}
    asked = QuantizationRequest(model, "auto", Drawn(), placement=placement, execute=execute, latency_counts=True)
    PostTrainingQuantizer().quantize(asked)

    in_float = [operators for operators in opened if "QuantizeLinear" not in operators]
    assert len(in_float) == 1  # the file that showed that no answer changes is the one that is timed
    assert all("HardSwish" in operators for operators in in_float)
    assert not any("HardSigmoid" in operators for operators in in_float)


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        (
            None,
            'outputs "boxes", "scores" look like a detector\'s boxes, but no boxes are read, because there are 20 '
            'rows (at least 100): [outputs] boxes = ["boxes", "scores"] in the project file reads boxes from there; '
            "boxes = false under [outputs] declares that there are none",
        ),
        (
            DeclaredOutputs(boxes=("boxes", "scores")),
            "8 objects are found on the samples, fewer than the 10 that a judgement needs: boxes are judged as "
            "numbers; give samples that show more",
        ),
    ],
    ids=["rows", "objects"],
)
def test_too_few_boxes_are_told_where_nothing_holds_the_budget(
    declared: DeclaredOutputs | None, told: str, parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    """Their numbers are judged then, and verification, which warns of it, is never reached."""
    nodes = """f = Flatten(x) c = Gemm(f, w1, b1) boxes = Reshape(c, four)
      l = Gemm(f, w2, b2) p = Sigmoid(l) scores = Reshape(p, three)"""
    corners = np.tile([2.0, 2.0, 9.0, 9.0], 20) + rng.uniform(0, 1, 80)
    constants = {
        "w1": rng.normal(0, 0.01, (432, 80)),
        "b1": corners,
        "w2": rng.normal(0, 0.02, (432, 60)),
        "b2": np.where(np.arange(60) < 3, 2.0, -4.0),
    }
    shapes = {"four": np.array([1, 20, 4]), "three": np.array([1, 20, 3])}
    model = Model(
        parse(
            f"""<ir_version: 8, opset_import: ["" : 17]>
            g (float[1, 3, 12, 12] x) => (float[1, 20, 4] boxes, float[1, 20, 3] scores) {{ {nodes} }}""",
            **{name: array.astype(np.float32) for name, array in constants.items()},
            **shapes,
        ),
        declared=declared,
    )
    with pytest.raises(BudgetError) as caught:
        PostTrainingQuantizer().quantize(QuantizationRequest(model, scheme="int8", samples=Drawn(8), max_drop=0.0))
    assert [text for text in caught.value.warnings if "boxes" in text] == [told]


@pytest.mark.parametrize("picture", ["12, 12", "height, width"])
def test_a_model_that_nothing_verifies_is_told_of_classes_that_no_object_is_of(
    picture: str, onnx_model: Callable[..., onnx.ModelProto], rng: np.random.Generator, tmp_path: Path
) -> None:
    """One of a hundred boxes is sure, of the first of three classes; samples tell the size where the file does not."""
    nodes = """f = Flatten(x) c = Gemm(f, w1, b1) boxes = Reshape(c, four)
      l = Gemm(f, w2, b2) p = Sigmoid(l) scores = Reshape(p, three)"""
    constants = {
        "w1": rng.normal(0, 0.01, (432, 400)),
        "b1": np.tile([2.0, 2.0, 9.0, 9.0], 100) + rng.uniform(0, 1, 400),
        "w2": rng.normal(0, 0.01, (432, 300)),
        "b2": np.where(np.arange(300) == 0, 2.0, -4.0),
    }
    model = onnx_model(
        f"""g (float[1, 3, {picture}] x) => (float[1, 100, 4] boxes, float[1, 100, 3] scores) {{ {nodes} }}""",
        **{name: array.astype(np.float32) for name, array in constants.items()},
        four=np.array([1, 100, 4]),
        three=np.array([1, 100, 3]),
    )
    onnx.save(model, tmp_path / "float.onnx")
    folder = tmp_path / "samples"
    folder.mkdir()
    for sample in Drawn(24):
        np.savez(folder / f"{sample.name}.npz", **sample.feeds)

    quantized = edgekit.quantize(tmp_path / "float.onnx", tmp_path / "int8.onnx", data=folder, scheme="int8")

    told = (
        "the original's boxes on the samples are of 1 of 3 classes, which leaves the others untested: give samples "
        "that show more classes"
    )
    assert quantized.record["left_to_verify"] == [told]
    assert told in quantized.warnings
    assert {trial["metric"] for trial in quantized.record["curve"]} == {"boxes"}
