"""Schemes that need no samples, on the targets that take them: the size that they promise, and the right numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.data.samples import Sample
from edgekit.model import Model
from edgekit.quantizer import QuantizationRequest
from edgekit.registry import find_profile
from edgekit.stages.quantize import Execute, refused
from edgekit.target import BuildOptions
from edgekit_quantize.graph.session import SessionRunner
from edgekit_quantize.plugin import PostTrainingQuantizer
from edgekit_quantize.schemes import placement_of

MIXED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4, 16, 16] x) => (float[1, 40] y) {
  c = Conv<pads = [1, 1, 1, 1]>(x, conv)
  r = Relu(c)
  p = GlobalAveragePool(r)
  f = Flatten(p)
  h = Gemm<transB = 1>(f, gemm, bias)
  t = Tanh(h)
  y = MatMul(t, matmul)
}"""
SHAPES = {"conv": (64, 4, 3, 3), "gemm": (96, 64), "bias": (96,), "matmul": (96, 40)}
LOSSES = {"int8-weights": 30.0, "int4-weights": 15.0, "int8-dynamic": 25.0, "float16": 55.0}
"""The SQNR in dB that each reaches at least: half a step of 8 bits is 42 dB below a uniform number, of 4 bits 18."""
PROFILES = ("onnxruntime", "web", "android-cpu", "intel-cpu", "intel-npu", "ios16", "ios17", "ios18")
TAKEN = [
    (profile, scheme) for profile in PROFILES for scheme in LOSSES if scheme not in refused(*find_profile(profile))
]


@pytest.fixture(scope="module")
def mixed() -> Model:
    rng = np.random.default_rng(7)
    proto = onnx.parser.parse_model(MIXED)
    for name, shape in SHAPES.items():
        scale = 1 / np.sqrt(np.prod(shape[1:]))
        proto.graph.initializer.append(
            onnx.numpy_helper.from_array((rng.normal(size=shape) * scale).astype(np.float32), name)
        )
    return Model(ir.from_proto(onnx.shape_inference.infer_shapes(proto)))


def _inputs() -> Iterator[dict[str, np.ndarray]]:
    rng = np.random.default_rng(8)
    for _ in range(4):
        yield {"x": rng.normal(size=(1, 4, 16, 16)).astype(np.float32)}


def _sqnr(exact: list[np.ndarray], found: list[np.ndarray]) -> float:
    signal, noise = np.concatenate(exact).astype(np.float64), np.concatenate(found) - np.concatenate(exact)
    return float(10 * np.log10(np.sum(signal**2) / np.sum(noise**2)))


def _quantized(model: Model, scheme: str, profile: str) -> Model:
    target, found = find_profile(profile)
    request = QuantizationRequest(model, scheme, None, placement=target.placement(found))
    return PostTrainingQuantizer().quantize(request).model


@pytest.mark.parametrize(("profile", "scheme"), TAKEN)
def test_a_target_that_takes_a_scheme_computes_it_right(
    mixed: Model, profile: str, scheme: str, execute: Callable[..., list[np.ndarray]]
) -> None:
    small = _quantized(mixed, scheme, profile)
    runner = Execute(*find_profile(profile), BuildOptions(precision="float32"))(small)

    exact = [execute(mixed.graph_model, feeds)[0] for feeds in _inputs()]
    assert _sqnr(exact, [runner.run(feeds)["y"] for feeds in _inputs()]) > LOSSES[scheme]


@pytest.mark.parametrize(("profile", "bits"), [("intel-cpu", 8), ("onnxruntime", 4)])
@pytest.mark.parametrize("inputs", [16, 48])
def test_a_matrix_that_is_no_whole_number_of_blocks_gets_what_the_target_takes(
    inputs: int, profile: str, bits: int, parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, {inputs}] x) => (float[1, 64] y) {{ y = MatMul(x, w) }}'
    )
    w = rng.normal(size=(inputs, 64)).astype(np.float32)
    small = _quantized(Model(parse(text, w=w)), "int4-weights", profile)
    assert {f"INT{bits}"} == {tensor.dtype.name for tensor in small.tensors() if tensor.dtype.name.startswith("INT")}
    x = rng.normal(size=(1, inputs)).astype(np.float32)
    found = Execute(*find_profile(profile), BuildOptions(precision="float32"))(small).run({"x": x})["y"]
    assert _sqnr([x @ w], [found]) > 12


SHARES = {"int8-weights": 0.32, "int8-dynamic": 0.32, "int4-weights": 0.23, "float16": 0.53}
"""The share of the weights' bytes that is left: 8, 4 and 16 of 32 bits, and scales; int4 gives convolutions 8 bits."""


@pytest.mark.parametrize(("profile", "scheme"), [pair for pair in TAKEN if pair[0] in {"onnxruntime", "intel-cpu"}])
def test_what_ships_is_as_small_as_it_says(mixed: Model, profile: str, scheme: str, tmp_path: Path) -> None:
    target, found = find_profile(profile)
    sizes = []
    for name, model in {"float": mixed, "small": _quantized(mixed, scheme, profile)}.items():
        (tmp_path / name).mkdir()
        main = target.build(model, found, tmp_path / name, BuildOptions(precision="float32")).main
        weights = main.with_suffix(".bin")
        sizes.append(weights.stat().st_size if weights.exists() else Model(ir.load(main)).weight_bytes)
    assert sizes[1] < SHARES[scheme] * sizes[0]


@pytest.mark.parametrize("profile", ["ios16", "ios17", "ios18"])
def test_core_ml_packages_hold_the_integers(mixed: Model, profile: str, tmp_path: Path) -> None:
    target, found = find_profile(profile)
    (tmp_path / "package").mkdir()
    main = target.build(_quantized(mixed, "int8-weights", profile), found, tmp_path / "package", BuildOptions()).main
    assert sum(file.stat().st_size for file in main.rglob("weight.bin")) < 0.33 * mixed.weight_bytes


@pytest.mark.parametrize(("profile", "has_integers"), [("ios16", False), ("ios17", True), ("ios18", True)])
@pytest.mark.parametrize("scheme", ["auto", "int8"])
def test_activations_are_quantized_where_core_ml_has_operations_for_them(
    profile: str, scheme: str, *, has_integers: bool
) -> None:
    """Apple's ``quantize`` and ``dequantize`` are operations of iOS 17 (coremltools' ``ops.defs.iOS17``)."""
    target, found = find_profile(profile)
    candidates = placement_of(scheme, target.placement(found)).candidates.values()
    assert candidates
    assert any(settings.quantizes_activations for settings in candidates) == has_integers


def test_runtimes_multiply_in_blocks_whichever_way_a_matrix_lies(mixed: Model, tmp_path: Path) -> None:
    import onnxruntime

    small = _quantized(mixed, "int4-weights", "onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(small.proto().SerializeToString(), options, providers=["CPUExecutionProvider"])
    operators = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert operators.count("MatMulNBits") == 2
    assert "DequantizeLinear" not in operators


HEAD = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 64] x) => (float[N, 48] y) {
  h = Gemm<transB = 1>(x, gemm, first)  r = Relu(h)  m = MatMul(r, matmul)  y = Add(second, m)
}"""


class Drawn:
    has_labels = False

    def __init__(self, *shape: int) -> None:
        self._shape = shape

    def __len__(self) -> int:
        return 24

    def __iter__(self) -> Iterator[Sample]:
        rng = np.random.default_rng(3)
        for number in range(24):
            yield Sample(str(number), {"x": rng.normal(size=self._shape).astype(np.float32)})


@pytest.mark.parametrize("smallest", [False, True])
@pytest.mark.parametrize("batch", [1, 5])
def test_a_bias_does_not_keep_the_runtime_from_multiplying_in_blocks(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], tmp_path: Path, batch: int, smallest: bool
) -> None:
    """ONNX Runtime fuses a product and its bias into a Gemm, whose matrix it converts to floats in every run."""
    import onnxruntime

    rng = np.random.default_rng(5)
    given = _weights(rng, gemm=(96, 64), first=(96,), matmul=(96, 48), second=(48,))
    model = Model(parse(HEAD, **given))
    if smallest:
        target, found = find_profile("onnxruntime")
        placement = target.placement(found)
        request = QuantizationRequest(model, "auto", Drawn(1, 64), placement=placement, smallest=True, max_drop=0.5)
        small = PostTrainingQuantizer().quantize(request).model
    else:
        small = _quantized(model, "int4-weights", "onnxruntime")

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    session = onnxruntime.InferenceSession(small.proto().SerializeToString(), options)
    operators = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert operators.count("MatMulNBits") == 2
    assert "DequantizeLinear" not in operators
    x = rng.normal(size=(batch, 64)).astype(np.float32)
    exact = np.maximum(x @ given["gemm"].T + given["first"], 0) @ given["matmul"] + given["second"]
    assert _sqnr([exact], session.run(None, {"x": x})) > 15  # as LOSSES has it
    assert _sqnr([exact], execute(small.graph_model, {"x": x})) > 15


@pytest.mark.parametrize(
    ("profile", "tried"),
    [("onnxruntime", True), ("android-cpu", False), ("web", False), ("web-webgpu", False), ("intel-cpu", False)],
)
def test_ranges_of_the_moment_are_tried_where_it_is_measured_whether_they_pay(profile: str, *, tried: bool) -> None:
    target, found = find_profile(profile)
    candidates = placement_of("auto", target.placement(found)).candidates.values()

    assert any("dynamic" in settings.layers.values() for settings in candidates) == tried


@pytest.mark.parametrize(("batch", "products"), [("1", 2), ("N", 0)])
def test_ranges_of_the_moment_are_taken_where_they_are_the_fastest_and_no_other_sample_has_a_part_in_them(
    parse: Callable[..., ir.Model],
    execute: Callable[..., list[np.ndarray]],
    rng: np.random.Generator,
    batch: str,
    products: int,
) -> None:
    class Runner(SessionRunner):
        """Takes 1 ms for products of integers whose ranges it finds itself, and 4 ms for everything else."""

        def __init__(self, model: Model) -> None:
            super().__init__(model.graph_model)
            self._seconds = 1e-3 if any(node.op_type == "MatMulInteger" for node in model.graph) else 4e-3

        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            time.sleep(self._seconds)
            return super().run(feeds)

    given = _weights(rng, gemm=(96, 64), first=(96,), matmul=(96, 48), second=(48,))
    target, found = find_profile("onnxruntime")
    model = Model(parse(HEAD.replace("[N", f"[{batch}"), **given))
    placement = target.placement(found)
    asked = QuantizationRequest(
        model, "auto", Drawn(1, 64), placement=placement, execute=Runner, latency_counts=True, max_drop=0.5
    )

    result = PostTrainingQuantizer().quantize(asked)

    operators = [node.op_type for node in result.model.graph]
    assert operators.count("MatMulInteger") == products
    x = rng.normal(size=(1, 64)).astype(np.float32)
    exact = np.maximum(x @ given["gemm"].T + given["first"], 0) @ given["matmul"] + given["second"]
    assert _sqnr([exact], execute(result.model.graph_model, {"x": x})) > LOSSES["int8-dynamic"]


def test_a_product_with_a_bias_is_dynamic_too(mixed: Model) -> None:
    operators = [node.op_type for node in _quantized(mixed, "int8-dynamic", "onnxruntime").graph]

    assert operators.count("MatMulInteger") == 2
    assert "Gemm" not in operators


UNROLLED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 48] x) => (float[1, 48] y) {
  a = Gemm<transB = 1>(x, w, b)  t = Tanh(a)  c = Gemm<transB = 1>(t, w, b)  u = Tanh(c)  y = MatMul(u, w)
}"""


@pytest.mark.parametrize(("scheme", "share"), [("int8-dynamic", 0.6), ("int4-weights", 0.6)])
def test_a_matrix_that_is_read_many_times_is_written_once_for_each_direction(
    parse: Callable[..., ir.Model],
    execute: Callable[..., list[np.ndarray]],
    rng: np.random.Generator,
    scheme: str,
    share: float,
) -> None:
    model = parse(UNROLLED, **_weights(rng, w=(48, 48), b=(48,)))
    small = _quantized(Model(model), scheme, "onnxruntime")

    assert small.weight_bytes < share * Model(model).weight_bytes
    feeds = {"x": rng.normal(size=(1, 48)).astype(np.float32)}
    assert _sqnr(execute(model, feeds), execute(small.graph_model, feeds)) > 10
    in_blocks = [node.outputs[0] for node in small.graph if "block_size" in node.attributes]
    assert all(len(value.uses()) == 1 for value in in_blocks)  # ONNX Runtime multiplies no others in blocks


LSTM = """<ir_version: 8, opset_import: ["" : 17]>
g (float[6, 1, 20] x, float[2, 1, 24] h0, float[2, 1, 24] c0) => (float[6, 2, 1, 24] y, float[2, 1, 24] h) {
  y, h, c = LSTM<hidden_size = 24, direction = "bidirectional">(x, w, r, b, , h0, c0)
}"""
IN_A_BRANCH = """<ir_version: 8, opset_import: ["" : 17]>
g (float[6, 1, 20] x, bool b) => (float[6, 1, 1, 24] y) {
  y = If(b) <then_branch = t () => (float[6, 1, 1, 24] u) { u, v = LSTM<hidden_size = 24>(x, w, r) },
             else_branch = e () => (float[6, 1, 1, 24] s) { s, z = LSTM<hidden_size = 24>(x, r2, r) }>
}"""


def _weights(rng: np.random.Generator, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name: (rng.normal(size=shape) / 5).astype(np.float32) for name, shape in shapes.items()}


def test_recurrent_nets_are_dynamic_where_the_runtime_has_an_operator(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    model = parse(LSTM, **_weights(rng, w=(2, 96, 20), r=(2, 96, 24), b=(2, 192)))
    target, profile = find_profile("onnxruntime")
    request = QuantizationRequest(Model(model), "int8-dynamic", None, placement=target.placement(profile))
    result = PostTrainingQuantizer().quantize(request)

    assert [node.op_type for node in result.model.graph] == ["DynamicQuantizeLSTM"]
    assert result.model.weight_bytes < 0.35 * Model(model).weight_bytes
    (layer,) = result.record["layers"]
    assert (layer["kind"], layer["done"]) == ("LSTM", "dynamic integers")
    feeds = {
        "x": rng.normal(size=(6, 1, 20)).astype(np.float32),
        "h0": rng.normal(size=(2, 1, 24)).astype(np.float32),
        "c0": rng.normal(size=(2, 1, 24)).astype(np.float32),
    }
    exact, found = (execute(made, feeds) for made in (model, result.model.graph_model))
    for right, near in zip(exact, found, strict=True):
        assert _sqnr([right], [near]) > 30


def test_a_recurrent_net_is_dynamic_behind_convolutions_of_integers(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    """A recognizer of text: convolutions whose ranges are known, and an LSTM, which ONNX Runtime has no others for."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 4, 16, 16] x) => (float[16, 1, 1, 24] y) {
      c = Conv<pads = [1, 1, 1, 1]>(x, k)
      a = Relu(c)
      m = ReduceMean<axes = [2], keepdims = 0>(a)
      t = Transpose<perm = [2, 0, 1]>(m)
      y, h = LSTM<hidden_size = 24>(t, w, r)
    }"""
    model = parse(text, **_weights(rng, k=(20, 4, 3, 3), w=(1, 96, 20), r=(1, 96, 24)))
    target, profile = find_profile("onnxruntime")
    data = target.placement(profile)
    (both,) = (
        entry
        for entry in data["candidates"]
        if (entry["layers"]["Conv"], entry["layers"]["LSTM"]) == ("both", "dynamic")
    )
    asked = QuantizationRequest(Model(model), "int8", Drawn(1, 4, 16, 16), placement={**data, "candidates": [both]})

    small = PostTrainingQuantizer().quantize(asked).model

    assert {"QuantizeLinear", "DynamicQuantizeLSTM"} <= {node.op_type for node in small.graph}
    (feeds, *_) = _inputs()
    assert _sqnr(execute(model, feeds), execute(small.graph_model, feeds)) > 25


def test_a_batch_first_lstm_has_no_such_operator(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 6, 20] x) => (float[1, 6, 1, 24] y) { y, h, c = LSTM<hidden_size = 24, layout = 1>(x, w, r) }"""
    model = parse(text, **_weights(rng, w=(1, 96, 20), r=(1, 96, 24)))

    small = _quantized(Model(model), "int8-dynamic", "onnxruntime")

    assert "DynamicQuantizeLSTM" not in {node.op_type for node in small.graph}


SHARED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[6, 1, 20] x) => (float[6, 1, 1, 24] y, float[6, 1, 1, 96] z) {
  y = LSTM<hidden_size = 24>(x, w, r)
  z = RNN<hidden_size = 96>(x, w, r2)
}"""


def test_layers_of_two_kinds_may_share_their_weights(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    model = parse(SHARED, **_weights(rng, w=(1, 96, 20), r=(1, 96, 24), r2=(1, 96, 96)))
    small = _quantized(Model(model), "int8-dynamic", "onnxruntime").graph_model

    feeds = {"x": rng.normal(size=(6, 1, 20)).astype(np.float32)}
    for exact, found in zip(execute(model, feeds), execute(small, feeds), strict=True):
        assert _sqnr([exact], [found]) > 25


@pytest.mark.parametrize("taken", [True, False])
def test_recurrent_nets_in_branches_too(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator, taken: bool
) -> None:
    model = parse(IN_A_BRANCH, **_weights(rng, w=(1, 96, 20), r=(1, 96, 24), r2=(1, 96, 20)))
    small = _quantized(Model(model), "int8-dynamic", "onnxruntime").graph_model

    assert {node.op_type for node in small.graph.all_nodes()} == {"If", "DynamicQuantizeLSTM"}
    feeds = {"x": rng.normal(size=(6, 1, 20)).astype(np.float32), "b": np.array(taken)}
    assert _sqnr(execute(model, feeds), execute(small, feeds)) > 30


def test_other_runtimes_store_their_weights(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    model = parse(LSTM, **_weights(rng, w=(2, 96, 20), r=(2, 96, 24), b=(2, 192)))
    result = PostTrainingQuantizer().quantize(QuantizationRequest(Model(model), "int8-dynamic", None))

    assert "LSTM" in {node.op_type for node in result.model.graph}
    assert result.model.weight_bytes < 0.35 * Model(model).weight_bytes


class Rows:
    """Samples of 16 numbers."""

    has_labels = False

    def __len__(self) -> int:
        return 16

    def __iter__(self) -> Iterator[Sample]:
        rng = np.random.default_rng(8)
        for number in range(16):
            yield Sample(str(number), {"x": rng.normal(size=(1, 16)).astype(np.float32)})


@pytest.mark.parametrize("scheme", ["int8-weights", "int4-weights", "float16"])
@pytest.mark.parametrize("samples", [None, Rows()], ids=["without samples", "with samples"])
def test_where_no_weight_is_stored_smaller_the_model_is_left_as_it_is(
    scheme: str, samples: Rows | None, parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 16] x) => (float[1, 16] y) {
      p = MatMul(x, w)  y = Add(p, b)
    }"""
    w, b = rng.normal(size=(16, 16)).astype(np.float32), np.ones(16, np.float32)
    model = Model(parse(text, w=w, b=b))
    result = PostTrainingQuantizer().quantize(QuantizationRequest(model, scheme, samples))
    assert result.model is model
    assert result.record["scheme"] == "none"
    assert result.record["reason"] == f"{scheme} does not make the weights smaller: 1088 bytes, 1088 bytes before"
    assert f"left as it is: {result.record['reason']}" in result.record["warnings"]
    assert [layer["done"] for layer in result.record["layers"]] in (["float"], [])


BY_A_ZERO_BIAS = """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 16] x) => (float[1, 8] y) {
  p = Mul(x, ones)  y = Gemm(p, w, zeros)
}"""
"""Preparation leaves out the factor and the bias, as of what sklearn's exporter writes; the weights are few."""


@pytest.mark.parametrize("samples", [None, Rows()], ids=["without samples", "with samples"])
def test_what_preparation_leaves_out_is_no_saving_of_stored_weights(
    samples: Rows | None, parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    w, ones, zeros = rng.normal(size=(16, 8)), np.ones(16, np.float32), np.zeros((1, 8), np.float32)
    model = Model(parse(BY_A_ZERO_BIAS, w=w.astype(np.float32), ones=ones, zeros=zeros))
    result = PostTrainingQuantizer().quantize(QuantizationRequest(model, "int8-weights", samples))
    assert result.model is model
    assert result.record["reason"] == "int8-weights does not make the weights smaller: all of them stay float"


def test_a_candidate_that_stores_nothing_is_not_smaller_by_what_preparation_leaves_out(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    w, ones, zeros = rng.normal(size=(16, 8)), np.ones(16, np.float32), np.zeros((1, 8), np.float32)
    model = Model(parse(BY_A_ZERO_BIAS, w=w.astype(np.float32), ones=ones, zeros=zeros))
    given = {"candidates": [{"name": "weights only", "layers": {}}]}
    result = PostTrainingQuantizer().quantize(QuantizationRequest(model, "auto", Rows(), placement=given))
    (trial,) = result.record["curve"]
    bytes_of_all = 4 * (16 * 8 + 16 + 8)
    assert (trial["weight_bytes"], trial["float_weight_bytes"]) == (bytes_of_all, bytes_of_all)
    assert result.record["scheme"] == "none"
    assert result.record["reason"].endswith("no smaller than float")


def test_weights_of_half_precision_are_no_smaller_in_it(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float16[1, 32] x) => (float16[1, 32] y) {
      p = MatMul(x, w)  y = Add(p, b)
    }"""
    model = Model(parse(text, w=rng.normal(size=(32, 32)).astype(np.float16), b=np.ones(32, np.float16)))
    result = PostTrainingQuantizer().quantize(QuantizationRequest(model, "float16", None))
    assert result.model is model
    assert result.record["reason"].endswith(", 2112 bytes before")


def test_weights_whose_scales_take_the_room_that_integers_save_stay_float(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    """A scale for one number: 5 bytes in place of 4."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4, 1, 1] x, int64[1] i) => (float[1, 4, 32] y, float[1, 600] t, float[4, 1, 600] k) {
      k = MatMul(x, w6)  p = MatMul(x, w1)
      r, h = RNN<hidden_size = 600>(p, w2, w3)  s = Squeeze(r, one)  m = MatMul(s, w4)
      z = Transpose<perm = [1, 0, 2]>(m)  y = Identity(z)  t = Gather(w5, i)
    }"""
    shapes = {"w1": (1, 1), "w2": (1, 600, 1), "w3": (1, 600, 600), "w4": (600, 32), "w5": (1, 600), "w6": (1, 600)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model = Model(parse(text, one=np.array([1]), **arrays))
    result = PostTrainingQuantizer().quantize(QuantizationRequest(model, "int8-weights", None))
    large = {tensor.name: tensor.dtype for tensor in result.model.tensors() if tensor.size >= 600}
    assert large.keys() & arrays.keys() == {"w2", "w5", "w6"}
    assert [dtype.name for dtype in large.values()].count("INT8") == 2
    told = {layer["how"] for layer in result.record["layers"] if layer["done"] == "float"}
    assert "its scales take the room that integers save" in told
