from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit import registry
from edgekit.data.inputs import seeded_inputs
from edgekit.data.samples import SeededSamples
from edgekit.errors import InputError, InternalError
from edgekit.model import Model
from edgekit.quantizer import CandidateError, QuantizationRequest, QuantizationResult, Quantizer
from edgekit.registry import find_profile
from edgekit.stages import quantize as stage
from edgekit.stages.quantize import Execute, Quantize, Quantized, require_scheme
from edgekit.target import BuildOptions
from edgekit_quantize.schemes import SCHEMES

GRAPH = "f (float[1, 3] x) => (float[1, 3] y) { y = MatMul(x, w) }"


@pytest.fixture
def model(onnx_file: Callable[..., Path]) -> Model:
    path = onnx_file(GRAPH, w=np.eye(3, dtype=np.float32))
    return Model(ir.load(path), path)


def quantized(model: Model, scheme: str, **rest: float) -> Quantized:
    target, profile = find_profile("onnxruntime")
    result = Quantize(scheme, target, profile, BuildOptions(), SeededSamples(model, 8), **rest)(model)
    assert isinstance(result, Quantized)
    return result


class Recording(Quantizer):
    """A quantizer that does what a test says, and keeps the requests."""

    contract_version = 1
    name = "recording"
    schemes = SCHEMES

    def __init__(self, act: Callable[[QuantizationRequest], QuantizationResult]) -> None:
        self.requests: list[QuantizationRequest] = []
        self._act = act

    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        self.requests.append(request)
        return self._act(request)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Recording]:
    def install(act: Callable[[QuantizationRequest], QuantizationResult]) -> Recording:
        quantizer = Recording(act)
        monkeypatch.setattr(stage, "installed_quantizer", lambda name=None: quantizer)
        return quantizer

    return install


def test_none_leaves_the_model_as_it_is(model: Model) -> None:
    result = quantized(model, "none")
    assert result.model is model
    assert not result.quantized
    assert result.record == {"scheme": "none"}


def test_the_installed_quantizer_is_asked(model: Model, installed: Callable[..., Recording]) -> None:
    def act(request: QuantizationRequest) -> QuantizationResult:
        assert request.execute is not None
        runner = request.execute(request.model)
        (sample, *_) = list(request.samples or ())
        np.testing.assert_array_equal(runner.run(sample.feeds)["y"], sample.feeds["x"])
        return QuantizationResult(request.model, {"scheme": "int8"})

    quantizer = installed(act)
    assert quantized(model, "int8", max_drop=0.02).quantized
    (request,) = quantizer.requests
    assert (request.scheme, request.max_drop, request.latency_counts) == ("int8", 0.02, True)


def test_a_quantizer_may_decide_for_float(model: Model, installed: Callable[..., Recording]) -> None:
    installed(lambda request: QuantizationResult(request.model, {"scheme": "none"}))
    assert not quantized(model, "auto").quantized


def test_inputs_and_outputs_stay(
    model: Model, installed: Callable[..., Recording], onnx_file: Callable[..., Path]
) -> None:
    other = Model(ir.load(onnx_file(GRAPH.replace("x", "z"), name="other.onnx", w=np.eye(3, dtype=np.float32))))
    installed(lambda _: QuantizationResult(other, {"scheme": "int8"}))
    with pytest.raises(InternalError, match="the inputs were x: float32 1×3, now z: float32 1×3"):
        quantized(model, "int8")


@pytest.mark.parametrize(
    ("was", "now", "stays"),
    [
        ("k, j", "1, 3", True),
        ("k, j", "k, 3", True),
        ("?, 3", "k, 3", True),
        ("1, 3", "1, 4", False),
        ("1, 3", "k, 3", False),
    ],
)
def test_a_size_of_an_output_that_was_not_told_may_be(
    installed: Callable[..., Recording], onnx_model: Callable[..., onnx.ModelProto], was: str, now: str, stays: bool
) -> None:
    graph = "f (float[1, 3] x) => (float[{}] y) {{ y = Relu (x) }}"
    model, other = (Model(ir.from_proto(onnx_model(graph.format(shape)))) for shape in (was, now))
    installed(lambda _: QuantizationResult(other, {"scheme": "int8"}))
    if stays:
        assert quantized(model, "int8").model is other
        return
    texts = ["float32 " + shape.replace(", ", "×") for shape in (was, now)]
    with pytest.raises(InternalError, match="the outputs were y: {}, now y: {}".format(*texts)):
        quantized(model, "int8")


def test_no_quantizer(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda **_: [])
    registry.installed_quantizer.cache_clear()
    with pytest.raises(InputError, match="no quantizer is installed"):
        quantized(model, "int8")


def test_weights_alone_need_no_samples() -> None:
    require_scheme("int8-weights", available=False)
    require_scheme("none", available=False)
    with pytest.raises(InputError, match="--quantize auto: quantization needs samples"):
        require_scheme("auto", available=False)


def test_schemes_of_the_targets_own_are_left_to_its_build(model: Model) -> None:
    target, profile = find_profile("ios17")
    stage = Quantize("palette4", target, profile, BuildOptions(), None)
    result = stage(model)
    assert isinstance(result, Quantized)
    assert result.model is model
    assert result.quantized
    assert result.record == {"scheme": "palette4", "applied_by": "the target, when it builds"}


@pytest.mark.parametrize(
    ("target", "known"),
    [("onnxruntime", "int8-dynamic . float16 . none\nfound"), ("ios17", "int8-weights . none . palette4 . palette6")],
)
def test_a_scheme_that_the_target_lacks_is_refused_with_those_it_has(target: str, known: str, model: Model) -> None:
    with pytest.raises(InputError, match=rf"--quantize: unknown scheme\nexpected: .*{known}"):
        Quantize("int3-weights", *find_profile(target), BuildOptions(), None)(model)


@pytest.mark.parametrize(
    ("target", "scheme", "reason"),
    [
        ("ios17", "int4-weights", "iOS stores 4-bit integers from version 18 on"),
        ("ios18", "int8-dynamic", "Core ML has no product of integers whose ranges are found as it runs"),
        ("ios18", "float16", "--precision float16"),
        ("ios27", "int8-dynamic", "Core AI models have no product of integers whose ranges are found as it runs"),
        ("ios27", "float16", "--precision float16"),
        ("intel-cpu", "int8-dynamic", "OpenVINO computes it in float"),
    ],
)
def test_a_scheme_that_the_target_cannot_take_is_refused_with_the_reason(
    target: str, scheme: str, reason: str, model: Model
) -> None:
    with pytest.raises(InputError) as caught:
        Quantize(scheme, *find_profile(target), BuildOptions(), None)(model)
    text = str(caught.value)
    assert text.startswith(f"--quantize {scheme}: the target cannot take it\nexpected: auto | int8 | int8-weights | ")
    assert reason in text.partition("found: ")[2]


def test_half_precision_is_not_judged_as_quantized(onnx_file: Callable[..., Path]) -> None:
    path = onnx_file("f (float[1, 32] x) => (float[1, 32] y) { y = MatMul(x, w) }", w=np.eye(32, dtype=np.float32))
    model = Model(ir.load(path), path)
    assert not quantized(model, "float16").quantized
    assert quantized(model, "int8-weights").quantized


@pytest.mark.parametrize(
    ("target", "settings"),
    [
        ("onnxruntime", ["1 thread", "2 threads"]),
        ("intel-cpu", ["1 thread", "2 threads"]),
        pytest.param("ios18", ["declares it"], marks=pytest.mark.slow),  # which cannot be told how many
    ],
)
def test_a_candidate_is_opened_as_it_ships_and_in_a_wider_setting(
    model: Model, target: str, settings: list[str]
) -> None:
    opened = Execute(*find_profile(target), BuildOptions(), threads=2)(model)
    assert [" ".join(runner.executed_by.rstrip(")").split()[-2:]) for runner in opened.settings] == settings
    assert opened.executed_by == opened.settings[0].executed_by


@pytest.mark.parametrize(("target", "told"), [("ios18", [1, 2]), ("onnxruntime", [])])
def test_runs_of_a_stand_in_are_told_of_and_those_that_may_be_timed_are_not(
    model: Model, target: str, told: list[int]
) -> None:
    steps: list[tuple[str, int, int]] = []
    opened = Execute(*find_profile(target), BuildOptions("float32", progress=lambda *step: steps.append(step)))(model)
    feeds = seeded_inputs(model.inputs, 0)
    for _ in range(2):
        opened.run(feeds)
    assert steps == [("executing a candidate, run", number, 0) for number in told]


def test_what_is_wrong_with_a_candidate_is_told_as_such(onnx_file: Callable[..., Path]) -> None:
    execute = Execute(*find_profile("onnxruntime"), BuildOptions())
    unknown = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { y = NoSuchOperator(x) }")
    with pytest.raises(CandidateError, match=r"cannot be loaded: .*NoSuchOperator"):
        execute(Model(ir.load(unknown), unknown))
    indices = onnx_file("f (int64[1] i) => (float[1] y) { y = Gather(w, i) }", w=np.zeros(3, np.float32))
    opened = execute(Model(ir.load(indices), indices))
    with pytest.raises(CandidateError, match=r"cannot be run: .*indices element out of data bounds"):
        opened.run({"i": np.array([7])})
