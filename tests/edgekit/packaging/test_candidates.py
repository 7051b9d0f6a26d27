import errno
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit import api
from edgekit.bundle import Bundle
from edgekit.comparison.acceptance.refusal import InaccurateError
from edgekit.errors import InputError, InternalError, OpGap, RequestError, RequirementError, UnsupportedOpsError
from edgekit.files.disk_space import NoRoomError
from edgekit.model import Model
from edgekit.packaging.candidates import Candidate, CandidateOutcomes, Choice, first_accepted
from edgekit.packaging.float_form import FloatForm, SlowerError
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress
from edgekit.quantizer import QuantizationRequest, QuantizationResult, Quantizer
from edgekit.reporting.judgement import Weight, judge
from edgekit.reporting.summary import summary_record
from edgekit.stages import quantize
from edgekit.stages.build import Build, Built
from edgekit.stages.verify import Verified, Verify
from edgekit.timing.latency import Interval
from edgekit_quantize.schemes import SCHEMES

OnnxFile = Callable[..., Path]


class Told(Progress):
    """A progress that keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def packaged(model: Path, data: Path, target: str = "onnxruntime", **rest: Any) -> tuple[Bundle, list[str]]:
    told = Told()
    return package(PackageRequest(model, target, data.parent / "out", data=data, **rest), told), told.warnings


def outcomes(bundle: Bundle) -> dict[str, str]:
    return {row["candidate"]: row["fate"] for row in bundle.manifest["candidates"]}


def test_every_candidate_of_the_quantizer_is_told_of(perceptron: Path, data: Path) -> None:
    bundle, _ = packaged(perceptron, data)
    told = outcomes(bundle)
    assert list(told.values()).count("ships") == 1
    assert bundle.manifest["stages"][4]["record"]["chosen"] == next(name for name in told if told[name] == "ships")
    assert set(told) >= {trial["candidate"] for trial in bundle.manifest["stages"][4]["record"]["curve"]}


class Ruined(Quantizer):
    """A quantizer that gives a model that cannot be built, then one that computes something else, then none."""

    contract_version = 1
    name = "ruined"
    schemes = SCHEMES

    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        def with_second(op_type: str) -> Model:
            proto = request.model.proto()
            proto.graph.node[1].op_type = op_type
            return request.model.with_graph(ir.from_proto(proto))

        wrong = with_second("Sin")

        def told(scheme: str, chosen: str) -> dict[str, Any]:
            return {"scheme": scheme, "chosen": chosen, "warnings": [f"{chosen} was calibrated on little"]}

        def second() -> QuantizationResult:
            return QuantizationResult(wrong, told("int8-weights", "wrong"))

        return QuantizationResult(with_second("NoSuchOperator"), told("int8", "broken"), second)


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu"])
def test_a_candidate_that_cannot_be_built_or_is_wrong_gives_way(
    perceptron: Path, data: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize, "installed_quantizer", lambda name=None: Ruined())
    bundle, warnings = packaged(perceptron, data, target)
    shipped = "float16" if target == "intel-cpu" else "float32"
    assert outcomes(bundle) == {"broken": "refused", "wrong": "refused", shipped: "ships"}
    assert "NoSuchOperator" in bundle.manifest["candidates"][0]["reason"]
    assert bundle.manifest["model"]["kind"] == shipped
    worse = "is no smaller than the float model" if target == "intel-cpu" else "is not accurate enough"
    assert [text.split(" (")[0] for text in warnings] == [
        "broken was calibrated on little",
        "broken does not work",
        f"wrong {worse}",
    ]


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu"])
def test_what_candidates_that_gave_way_were_warned_of_is_not_told_of_the_bundle(
    perceptron: Path, data: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(stage: Build, given: Model) -> Built:
        result = build(stage, given)
        return replace(result, record={**result.record, "warnings": [f"built in {result.artifact.precision}"]})

    build = Build.run
    monkeypatch.setattr(Build, "run", built)
    monkeypatch.setattr(quantize, "installed_quantizer", lambda name=None: Ruined())
    monkeypatch.setattr(FloatForm, "_ratio", lambda *_: (1.2, 1.3))  # half precision is slower
    bundle, _ = packaged(perceptron, data, target)

    assert bundle.manifest["model"]["kind"] == "float32"
    told = summary_record(bundle.manifest)["warnings"]
    assert [text.split(" (")[0] for text in told] == [
        "broken does not work",
        *(
            ["wrong is no smaller than the float model", "float16 is slower than the float model: float32 instead"]
            if target == "intel-cpu"
            else ["wrong is not accurate enough"]
        ),
        "built in float32",
    ]
    rows = {row["candidate"]: row.get("warnings") for row in bundle.manifest["candidates"]}
    assert rows.pop("broken") == ["broken was calibrated on little"]
    assert rows.pop("wrong")[0] == "wrong was calibrated on little"
    assert rows == {"float32": None} | ({"float16": ["built in float16"]} if target == "intel-cpu" else {})


def test_a_first_attempt_is_not_told_of_where_a_second_one_ships(
    perceptron: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[Built] = []

    def built(stage: Build, given: Model) -> Built:
        result = build(stage, given)
        attempts.append(result)
        return replace(result, record={**result.record, "warnings": [f"of attempt {len(attempts)}"]})

    def verified(stage: Verify, given: Built) -> Verified:
        if len(attempts) == 1:
            raise InaccurateError("is not accurate enough", found="little", precision="float16", worst_samples=(0,))
        return verify(stage, given)

    build, verify = Build.run, Verify.run
    monkeypatch.setattr(Build, "run", built)
    monkeypatch.setattr(Verify, "run", verified)
    bundle, _ = packaged(perceptron, data, "ios18", quantize="none")
    assert bundle.manifest["model"]["kind"] == "float16"
    assert summary_record(bundle.manifest)["warnings"] == [
        "float16 is not accurate enough (little): what stays in float32 is decided anew, with 1 of these samples",
        "of attempt 2",
    ]


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
    assert warnings == [
        "quantization failed: a fault of EdgeKit itself: RuntimeError: two layers share what was folded"
    ]
    with pytest.raises(RuntimeError, match="share"):
        packaged(perceptron, data, quantize="int8")


class WithoutRoom(Quantizer):
    """A quantizer that finds the disk full."""

    contract_version = 1
    name = "without-room"
    schemes = SCHEMES

    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_no_reason_for_a_float_model(
    perceptron: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize, "installed_quantizer", lambda name=None: WithoutRoom())
    with pytest.raises(InputError, match="cannot be written: the disk is full"):
        packaged(perceptron, data)


def test_a_fault_of_another_package_s_quantizer_is_no_reason_for_a_float_model(
    perceptron: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize, "installed_quantizer", lambda name=None: Failing())
    monkeypatch.setattr(quantize, "plugin_at_fault", lambda failure: "edgekit-failing")
    with pytest.raises(RuntimeError, match="share"):
        packaged(perceptron, data)


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


INTEGERS = """<ir_version: 8, opset_import: ["" : 17]> g (uint8[2, 3] x, uint8[3, 2] w) => (int32[2, 2] y)
{ y = MatMulInteger (x, w) }"""

GAP = UnsupportedOpsError([OpGap(op_type="Foo", node="n", reason="no lowering")])


@pytest.mark.parametrize(
    ("errors", "whatever", "tried"),
    [
        ([InaccurateError("lost", precision="float16")], False, ["float", "float32"]),
        ([InaccurateError("lost", precision="float32")], False, ["float"]),
        ([InaccurateError("lost", precision="float32")], True, ["float"]),
        ([InternalError("crashed")], False, ["float"]),
        ([InternalError("crashed")], True, ["float", "float32"]),
        ([GAP], True, ["float"]),
        ([RequestError("cannot be used", subject="--option image=true")], True, ["float"]),
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
        first_accepted(forms, attempt, CandidateOutcomes(), lambda *_: (), whatever_fails=whatever)
    assert seen == tried


def test_the_instruction_set_that_a_form_fails_with_is_named() -> None:
    told = []

    def attempt(_: Candidate) -> Verified:
        raise InaccurateError("lost", precision="float16", subject="with avx512", found="6.25% instead of 84.38%")

    def fall_back(_before: Candidate, _form: Candidate, text: str) -> tuple[str, ...]:
        told.append(text)
        return ()

    with pytest.raises(InaccurateError):
        first_accepted(
            iter([form("integers"), form("float16")]), attempt, CandidateOutcomes(), fall_back, whatever_fails=True
        )
    assert told == ["integers is not accurate enough with avx512 (6.25% instead of 84.38%): float16 instead"]


def test_what_too_little_is_found_of_is_told_of_a_form_that_gives_way() -> None:
    told = []
    few = "6 objects are found on the samples: give samples that show more"

    def attempt(_: Candidate) -> Verified:
        raise InaccurateError("lost", precision="int8", found="SQNR 5.0 dB", too_few=few)

    def fall_back(_before: Candidate, _form: Candidate, text: str) -> tuple[str, ...]:
        told.append(text)
        return ()

    with pytest.raises(InaccurateError):
        first_accepted(
            iter([form("integers"), form("float16")]), attempt, CandidateOutcomes(), fall_back, whatever_fails=True
        )
    assert told == [f"integers is not accurate enough (SQNR 5.0 dB; {few}): float16 instead"]


def stored(weights: Sequence[int], dtype: str = "int8") -> SimpleNamespace:
    """A form whose weights are these integers."""
    numbers = ", ".join(map(str, weights))
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1, 2] x) => (float[1, 2] y)
    <{dtype}[2, 2] q = {{{numbers}}}, float s = {{0.5}}>
    {{ w = DequantizeLinear (q, s) y = MatMul (x, w) }}"""
    return SimpleNamespace(model=Model(ir.from_proto(onnx.parser.parse_model(text))), record={})


def test_weights_that_are_rounded_another_way_are_not_timed_again() -> None:
    """The operations are those that took longer than the float model's: a second look finds them fast by chance."""
    forms = [
        form("weights only", stored([1, 2, 3, 4])),
        form("weights only, weights rounded adaptively", stored([1, 2, 4, 4])),
        form("unsigned weights", stored([1, 2, 3, 4], "uint8")),
    ]
    tried, told, outcomes = [], [], CandidateOutcomes()

    def attempt(candidate: Candidate) -> Verified:
        tried.append(candidate.name)
        if len(tried) == 1:
            raise SlowerError("is slower than the float model")
        return SimpleNamespace()  # type: ignore[return-value]

    def fall_back(_before: Candidate, _form: Candidate, text: str) -> tuple[str, ...]:
        told.append(text)
        return ()

    first_accepted(iter(forms), attempt, outcomes, fall_back, whatever_fails=True)
    assert tried == ["weights only", "unsigned weights"]
    assert told == ["'weights only' is slower than the float model: 'unsigned weights' instead"]
    assert [(row["fate"], row["reason"]) for row in outcomes.as_record()] == [
        ("refused", "is slower than the float model"),
        ("refused", "not tried: it has the operations of 'weights only', which is slower than the float model"),
        ("ships", ""),
    ]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), NoRoomError("is full")])
def test_a_full_disk_is_no_fault_of_a_form(error: Exception) -> None:
    """The next form would ship in its place where somebody frees some space meanwhile."""
    tried = []

    def attempt(form: Candidate) -> Verified:
        tried.append(form.name)
        raise error

    with pytest.raises(type(error)):
        first_accepted(
            iter([form("float16"), form("float32")]), attempt, CandidateOutcomes(), lambda *_: (), whatever_fails=True
        )
    assert tried == ["float16"]


def test_a_precision_that_the_target_chose_and_the_user_may_ask_for_are_told_apart() -> None:
    """Runtimes compute products of integers with fewer bits than float32 unless asked."""
    told = []
    quantized = SimpleNamespace(model=Model(ir.from_proto(onnx.parser.parse_model(INTEGERS))))
    forms = [Candidate("float", quantized, "auto"), Candidate("float32", quantized, "float32")]  # type: ignore[arg-type]

    def attempt(_: Candidate) -> Verified:
        raise InaccurateError("lost", precision="float32", found="SQNR 43.8 dB")

    def fall_back(_before: Candidate, _form: Candidate, text: str) -> tuple[str, ...]:
        told.append(text)
        return ()

    with pytest.raises(InaccurateError):
        first_accepted(iter(forms), attempt, CandidateOutcomes(), fall_back, whatever_fails=False)
    assert told == ["float32 is not accurate enough (SQNR 43.8 dB): --precision float32 instead"]


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


@pytest.mark.parametrize(
    ("asked", "kind"), [({}, "float32"), ({"like": Choice(None, in_float=True, precision="float16")}, "float16")]
)
def test_half_precision_that_saves_hardly_anything_gives_way(
    onnx_file: Callable[..., Path], data: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], kind: str
) -> None:
    monkeypatch.setattr(quantize, "installed_quantizer", lambda name=None: Failing())
    monkeypatch.setattr(FloatForm, "_ratio", lambda *_: (0.6, 0.7))
    rng = np.random.default_rng(0)
    model = onnx_file(
        "f (float[1, 64] x) => (float[1, 6000] y, float[1, 16] z) { y = Gather <axis = 1> (x, i) z = MatMul(x, w) }",
        i=rng.integers(0, 64, 6000),
        w=rng.standard_normal((64, 16)).astype(np.float32),
    )

    bundle, warnings = packaged(model, data, "intel-cpu", **asked)

    assert bundle.manifest["model"]["kind"] == kind
    told = [text for text in warnings if "hardly smaller" in text]
    assert len(told) == (kind == "float32")
    assert all(text.startswith("float16 is hardly smaller than the float model (") for text in told)
    assert all(text.endswith("): float32 instead") for text in told)


def test_a_model_that_is_too_large_names_its_file_and_what_helps(perceptron: Path, tmp_path: Path) -> None:
    with pytest.raises(RequirementError) as raised:
        api.package(perceptron, "onnxruntime", tmp_path / "bundle", quantize="none", max_size="10")
    what, most, _, hint = str(raised.value).splitlines()
    assert what == "model.onnx: is larger than --max-size allows"
    assert most == "expected: at most 10 B"
    assert hint == "hint: --quantize auto with samples in --data searches for a model of that size"


def test_where_no_form_of_a_size_is_accurate_the_hint_does_not_repeat_what_was_asked(
    perceptron: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize, "installed_quantizer", lambda name=None: Ruined())
    with pytest.raises(RequirementError, match="is larger than --max-size allows") as raised:
        api.package(perceptron, "onnxruntime", tmp_path / "bundle", data=data, quantize="auto", max_size="10")
    assert raised.value.hint == (
        "no form of that size was accurate enough when it was built; allow more bytes, or a larger --max-drop"
    )


class RuinedByName(Ruined):
    """Gives its first candidate a name of several words."""

    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        result = super().quantize(request)
        return replace(result, record={**result.record, "chosen": "integer products"})


def test_names_of_several_words_are_quoted(perceptron: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "installed_quantizer", lambda name=None: RuinedByName())
    _, warnings = packaged(perceptron, data)
    assert any(text.startswith("'integer products' does not work (") for text in warnings)
