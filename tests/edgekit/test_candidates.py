import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.bundle import Bundle
from edgekit.candidates import Candidate, Fate, Fates, first_that_holds
from edgekit.errors import InputError, InternalError, OpGap, UnsupportedOpsError
from edgekit.float_form import FloatForm
from edgekit.model import Model
from edgekit.pipeline import PackageRequest, package
from edgekit.progress import Progress
from edgekit.quantizer import QuantizationRequest, QuantizationResult, Quantizer
from edgekit.reporting.judgement import Weight, judge
from edgekit.stages import quantize
from edgekit.stages.verify import InaccurateError, Verified
from edgekit.timing.latency import Interval
from edgekit_quantize.schemes import SCHEMES

OnnxFile = Callable[..., Path]


@pytest.fixture
def perceptron(onnx_file: OnnxFile) -> Path:
    rng = np.random.default_rng(0)
    return onnx_file(
        "f (float[1, 64] x) => (float[1, 32] y) { a = MatMul(x, v) b = Relu(a) y = MatMul(b, w) }",
        v=rng.standard_normal((64, 256)).astype(np.float32),
        w=rng.standard_normal((256, 32)).astype(np.float32),
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for seed in range(8):
        np.savez(folder / f"{seed}.npz", x=np.random.default_rng(seed).standard_normal((1, 64)).astype(np.float32))
    return folder


class Told(Progress):
    """Keeps what it is warned of."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def packaged(model: Path, data: Path, target: str = "onnxruntime", **rest: Any) -> tuple[Bundle, list[str]]:
    told = Told()
    return package(PackageRequest(model, target, data.parent / "out", data=data, **rest), told), told.warnings


def fates(bundle: Bundle) -> dict[str, str]:
    return {row["candidate"]: row["fate"] for row in bundle.manifest["candidates"]}


def test_every_candidate_of_the_quantizer_is_told_of(perceptron: Path, data: Path) -> None:
    bundle, _ = packaged(perceptron, data)
    told = fates(bundle)
    assert list(told.values()).count("ships") == 1
    assert bundle.manifest["stages"][4]["record"]["chosen"] == next(name for name in told if told[name] == "ships")
    assert set(told) >= {trial["candidate"] for trial in bundle.manifest["stages"][4]["record"]["curve"]}


class Ruined(Quantizer):
    """Gives what cannot be built, then what computes something else, then nothing."""

    contract_version = 1
    name = "ruined"
    schemes = SCHEMES

    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        def with_second(op_type: str) -> Model:
            proto = request.model.proto()
            proto.graph.node[1].op_type = op_type
            return request.model.with_graph(ir.from_proto(proto))

        wrong = with_second("Sin")

        def second() -> QuantizationResult:
            return QuantizationResult(wrong, {"scheme": "int8-weights", "chosen": "wrong"})

        return QuantizationResult(with_second("NoSuchOperator"), {"scheme": "int8", "chosen": "broken"}, second)


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu"])
def test_a_candidate_that_cannot_be_built_or_is_wrong_gives_way(
    perceptron: Path, data: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize, "installed_quantizer", lambda name=None: Ruined())
    bundle, warnings = packaged(perceptron, data, target)
    shipped = "float16" if target == "intel-cpu" else "float32"
    assert fates(bundle) == {"broken": "refused", "wrong": "refused", shipped: "ships"}
    assert "NoSuchOperator" in bundle.manifest["candidates"][0]["reason"]
    assert bundle.manifest["model"]["kind"] == shipped
    worse = "is no smaller than the float model" if target == "intel-cpu" else "is not accurate enough"
    assert [text.split(" (")[0] for text in warnings] == ["broken does not work", f"wrong {worse}"]


class Failing(Quantizer):
    contract_version = 1
    name = "failing"
    schemes = SCHEMES

    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        raise RuntimeError("two layers share what was folded")


def test_a_quantizer_that_fails_leaves_a_float_model(
    perceptron: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize, "installed_quantizer", lambda name=None: Failing())
    bundle, warnings = packaged(perceptron, data)
    assert bundle.manifest["model"]["kind"] == "float32"
    assert warnings == ["quantization failed: two layers share what was folded"]
    with pytest.raises(RuntimeError, match="share"):
        packaged(perceptron, data, quantize="int8")


def test_a_quantized_model_that_is_no_smaller_does_not_ship(onnx_file: OnnxFile, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for seed in range(8):
        np.savez(data / f"{seed}.npz", x=np.random.default_rng(seed).standard_normal((1, 8)).astype(np.float32))
    layers = " ".join(f"h{i + 1} = MatMul(h{i}, w{i})" for i in range(6))
    rng = np.random.default_rng(0)
    model = onnx_file(
        f"f (float[1, 8] x) => (float[1, 8] y) {{ h0 = Identity(x) {layers} y = Identity(h6) }}",
        **{f"w{i}": rng.standard_normal((8, 8)).astype(np.float32) for i in range(6)},
    )
    bundle, _ = packaged(model, data)
    assert bundle.manifest["model"]["kind"] == "float32"
    reasons = [row["reason"] for row in bundle.manifest["candidates"] if row["fate"] != "ships"]
    assert reasons
    assert all("than the float model" in reason for reason in reasons), json.dumps(reasons)


def form(name: str, quantized: object = None) -> Candidate:
    return Candidate(name, quantized, "auto")  # type: ignore[arg-type] # only who is who counts


GAP = UnsupportedOpsError([OpGap("Foo", "n", "no lowering")])


@pytest.mark.parametrize(
    ("errors", "whatever", "tried"),
    [
        ([InaccurateError("lost", precision="float16")], False, ["float", "float32"]),
        ([InaccurateError("lost", precision="float32")], False, ["float"]),
        ([InaccurateError("lost", precision="float32")], True, ["float"]),
        ([InternalError("crashed")], False, ["float"]),
        ([InternalError("crashed")], True, ["float", "float32"]),
        ([GAP], True, ["float"]),
    ],
)
def test_single_precision_is_tried_where_it_may_help(errors: list[Exception], whatever: bool, tried: list[str]) -> None:
    model = object()
    seen = []

    def attempt(candidate: Candidate) -> Verified:
        seen.append(candidate.name)
        raise errors[0] if len(seen) == 1 else InputError("not at all")

    forms = iter([form("float", model), form("float32", model)])
    with pytest.raises((InputError, type(errors[0]))):
        first_that_holds(forms, attempt, Fates(), lambda _: None, whatever_fails=whatever)
    assert seen == tried


def test_a_trial_over_the_budget_is_told_with_both_figures() -> None:
    told = Fates()
    trial = {"metric": "accuracy", "value": 0.9, "float_value": 0.95, "drop": 0.05, "sqnr_db": 20.0, "weight_bytes": 10}
    slow = {**trial, "drop": 0.0, "latency_ms": 2.0, "float_latency_ms": 1.0}
    curve = [{"candidate": "a", **trial}, {"candidate": "b", **slow}, {"candidate": "c", **trial, "drop": 0}]
    told.measured({"max_drop": 0.01, "curve": curve})
    told.told("c", Fate.SHIPS)
    rows = told.as_record()
    assert [(row["candidate"], row["fate"], row["reason"]) for row in rows] == [
        ("a", "refused", "5.00% of accuracy lost, 1.00% is allowed"),
        ("b", "refused", "slower than the float model"),
        ("c", "ships", ""),
    ]
    assert rows[0]["sqnr_db"] == 20.0


def test_a_floor_may_be_asked_for_and_what_misses_it_accepted(perceptron: Path, data: Path) -> None:
    asked = {"quantize": "int8-weights", "floor_db": 90.0}
    with pytest.raises(InaccurateError, match="not accurate enough") as failure:
        packaged(perceptron, data, **asked)
    assert "(at least 90 dB)" in str(failure.value.found)
    bundle, warnings = packaged(perceptron, data, **asked, accept=True)
    manifest = bundle.manifest
    assert manifest["model"]["kind"] == "quantized"
    assert manifest["options"]["floor_db"] == 90.0
    assert [text.split(":")[0] for text in manifest["accuracy"]["accepted"]] == ["output 'y'"]
    assert any(text.startswith("accepted although it misses its floor (--accept)") for text in warnings)
    weight, findings = judge(manifest)
    assert weight is Weight.BAD
    assert "was taken with --accept" in findings[0].text


@pytest.mark.parametrize("slower", [True, False])
def test_half_precision_that_is_slower_gives_way(
    perceptron: Path, data: Path, monkeypatch: pytest.MonkeyPatch, slower: bool
) -> None:
    def timed(*_: Any) -> Interval:
        return (1.2, 1.3) if slower else (0.6, 0.7)

    monkeypatch.setattr(quantize, "installed_quantizer", lambda name=None: Failing())
    monkeypatch.setattr(FloatForm, "_ratio", timed)

    bundle, warnings = packaged(perceptron, data, "intel-cpu")

    assert bundle.manifest["model"]["kind"] == ("float32" if slower else "float16")
    assert warnings[1:] == (["float16 is slower than the float model: float32 instead"] if slower else [])
