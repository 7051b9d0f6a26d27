"""Bundles whose runtime is held to an instruction set, on a product of integers that saturates without VNNI."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit import instruction_sets
from edgekit.bundle import read_bundle
from edgekit.data.samples import Sample, open_samples
from edgekit.devices.opening import open_device
from edgekit.devices.own_check import draft_bundle
from edgekit.devices.qemu import FOLDER_VARIABLE, x86_emulator
from edgekit.errors import InputError
from edgekit.instruction_sets import FLAGS, note_on, own_set, processor_flags
from edgekit.model import Model
from edgekit.registry import find_profile
from edgekit.stages import executable_sets
from edgekit.stages.executable_sets import ExecutableSets
from edgekit.target import BuildOptions

RunEdgeKit = Callable[..., Any]

pytestmark = pytest.mark.skipif(not set(FLAGS["avx2"]) <= processor_flags(), reason="this processor has no AVX2")
INPUTS, OUTPUTS, SAMPLES = 64, 32, 8
BY_HAND = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[1, {INPUTS}, 4, 4] x) => (float[1, {OUTPUTS}, 4, 4] y) {{ y = Conv(x, w) }}"""
WRITTEN = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[1, {INPUTS}, 4, 4] x) => (float[1, {OUTPUTS}, 4, 4] y) {{
  q = QuantizeLinear(x, step, zero)  d = DequantizeLinear(q, step, zero)
  v = DequantizeLinear<axis = 0>(w, scale)  y = Conv(d, v)
}}"""
"""Weights of 127 and activations near 255: two of their products are about 60,000, and 16 bits hold 32,767."""


class Large:
    """Samples that are near the largest activation everywhere except in a corner."""

    has_labels = False

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Any:
        rng = np.random.default_rng(6)
        for number in range(SAMPLES):
            x = rng.uniform(0.8, 1, (1, INPUTS, 4, 4)).astype(np.float32)
            x[..., :2] *= rng.uniform(0.1, 1)
            yield Sample(str(number), {"x": x})


def _model(text: str, **arrays: np.ndarray) -> ir.Model:
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


@pytest.fixture
def saturating(tmp_path: Path) -> Path:
    integers = np.where(np.random.default_rng(5).random((OUTPUTS, INPUTS, 1, 1)) < 0.9, 127, -127).astype(np.int8)
    scales = {"step": np.float32(1 / 255), "zero": np.uint8(0), "scale": np.full(OUTPUTS, 1 / 127, np.float32)}
    path = tmp_path / "saturating.onnx"
    ir.save(_model(WRITTEN, w=integers, **{name: np.asarray(value) for name, value in scales.items()}), path)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for sample in Large():
        np.savez(folder / f"{sample.name}.npz", **sample.feeds)
    return folder


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes this processor appear to have the instruction set that a test says."""

    def have(flags: str) -> None:
        monkeypatch.setattr(instruction_sets, "processor_flags", lambda: frozenset(flags.split()))

    return have


has_vnni = set(FLAGS["vnni"]) <= processor_flags()
needs_vnni = pytest.mark.skipif(not has_vnni, reason="this processor has no VNNI")
needs_emulator = pytest.mark.skipif(x86_emulator() is None, reason="QEMU is not installed (`make qemu` installs it)")


@pytest.fixture
def without_emulator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


@pytest.fixture
def bundle(edgekit: RunEdgeKit, saturating: Path, data: Path, tmp_path: Path) -> Path:
    """The saturating model for OpenVINO, verified with VNNI alone."""
    if not has_vnni:
        pytest.skip("this processor has no VNNI")
    made = tmp_path / "bundle"
    arguments = ("package", saturating, "--target", "intel-cpu", "--data", data, "--isa", "vnni", "-o", made)
    assert edgekit(*arguments).code == 0
    return made


@needs_vnni
def test_a_sum_that_saturates_without_vnni_is_found(edgekit: RunEdgeKit, bundle: Path) -> None:
    here = edgekit("verify", bundle, "--isa", "vnni", "--json")
    older = edgekit("verify", bundle, "--isa", "vnni,avx2")

    assert here.code == 0
    assert [*here.json["instruction_sets"]] == ["vnni"]
    assert here.json["executed_by"].endswith(", isa:vnni")
    assert older.code == 1
    assert "does not compute its golden outputs, executed by OpenVINO" in older.err
    assert ", isa:avx2" in older.err


@needs_vnni
def test_package_writes_out_in_floats_what_saturates_on_processors_of_the_profile(
    edgekit: RunEdgeKit, saturating: Path, data: Path, tmp_path: Path
) -> None:
    made = tmp_path / "bundle"
    finished = edgekit("package", saturating, "--target", "intel-cpu", "--data", data, "-o", made)

    assert finished.code == 0
    manifest = read_bundle(made).manifest
    assert {own_set(), "avx2"} <= {*manifest["instruction_sets"]["verified"]}
    *refused, ships = manifest["candidates"]
    assert ships["fate"] == "ships"
    assert any("avx2" in candidate["reason"] for candidate in refused)
    assert edgekit("verify", made, "--isa", "avx2").code == 0


@needs_vnni
def test_the_gate_refuses_what_saturates(edgekit: RunEdgeKit, bundle: Path) -> None:
    finished = edgekit("gate", bundle, "--isa", "avx2,vnni,amx", "--json")

    assert finished.code == 1
    found = {verdict["budget"]: verdict["outcome"] for verdict in finished.json["bundles"][0]["verdicts"]}
    assert found["outputs with avx2"] == "broken"
    assert found["outputs with vnni"] == "kept"
    if not set(FLAGS["amx"]) <= processor_flags():
        assert found["outputs with amx"] == "inconclusive"


def test_the_quantizer_writes_weights_whose_sums_do_not_saturate(
    edgekit: RunEdgeKit, data: Path, tmp_path: Path
) -> None:
    weights = np.where(np.random.default_rng(5).random((OUTPUTS, INPUTS, 1, 1)) < 0.9, 1.0, -1.0).astype(np.float32)
    model, int8, made = tmp_path / "model.onnx", tmp_path / "int8.onnx", tmp_path / "bundle"
    ir.save(_model(BY_HAND, w=weights), model)
    quantize = ("quantize", model, "--scheme", "int8", "--target", "intel-cpu", "--data", data, "-o", int8, "--json")

    quantized = edgekit(*quantize, "--explain")

    assert quantized.code == 0
    assert quantized.json["quantized"]
    (layer,) = quantized.json["layers"]
    assert f"{OUTPUTS} of {OUTPUTS} channels kept from saturation" in layer["how"]
    beside = quantized.json["unrestricted"]
    assert beside["value"] < 0.9 < quantized.json["curve"][0]["value"]
    weakest = min(beside["settings"], key=beside["settings"].get)
    assert weakest.endswith(("isa:avx2", "isa:avx512")) or not has_vnni  # where this processor's own set is one of them
    packaged = edgekit("package", int8, "--target", "intel-cpu", "--data", data, "-o", made)
    assert packaged.code == 0
    verified = read_bundle(made).manifest["instruction_sets"]["verified"]
    assert {own_set(), "avx2"} <= {*verified}
    assert edgekit("verify", made, "--isa", "avx2").code == 0


def test_what_this_processor_lacks_is_told(
    edgekit: RunEdgeKit, bundle: Path, unlimited: Callable[[str], None], without_emulator: None
) -> None:
    unlimited("sse2")

    finished = edgekit("verify", bundle, "--isa", "avx2,amx,neon")

    assert finished.code == 2
    assert "isa:amx: this processor does not have the instructions\nfound: no amx_tile, amx_int8" in finished.err
    assert "isa:neon: this processor is not an ARM processor, and no emulator is installed" in finished.err
    assert (
        "--isa avx2,amx,neon: neither this processor nor an emulator here executes the bundle with any of these "
        "instruction sets"
    ) in finished.err


def test_package_refuses_instruction_sets_that_nothing_executes(
    edgekit: RunEdgeKit, saturating: Path, tmp_path: Path, unlimited: Callable[[str], None], without_emulator: None
) -> None:
    unlimited("sse2")
    finished = edgekit("package", saturating, "--target", "intel-cpu", "--isa", "avx512", "-o", tmp_path / "bundle")

    assert finished.code == 2
    assert "isa:avx512: this processor does not have the instructions" in finished.err
    assert "hint: QEMU emulates avx2, neon alone" in finished.err


@pytest.mark.parametrize("target", ["ios18", "web", "web-webgpu"])
def test_a_device_that_no_processor_here_stands_for_has_no_instruction_sets(
    edgekit: RunEdgeKit, saturating: Path, tmp_path: Path, target: str
) -> None:
    finished = edgekit("package", saturating, "--target", target, "--isa", "avx2", "-o", tmp_path / "bundle")

    assert finished.code == 2
    told = f"isa:avx2: no processor of this system executes what is built for {target}, with any instructions"
    assert finished.err.endswith(f"error: {told}\nhint: leave --isa out\n")

    assert edgekit("package", saturating, "--target", target, "-o", tmp_path / "bundle").code == 0
    assert told in edgekit("verify", tmp_path / "bundle", "--isa", "avx2").err
    judged = edgekit("gate", tmp_path / "bundle", "--isa", "avx2", "--json")
    rows = {row["budget"]: row["outcome"] for row in judged.json["bundles"][0]["verdicts"]}
    assert (judged.code, rows["outputs with avx2"]) == (0, "not compared")


def test_quantize_holds_a_target_alone_to_instruction_sets(edgekit: RunEdgeKit, saturating: Path, data: Path) -> None:
    finished = edgekit("quantize", saturating, "--data", data, "--isa", "avx2", "-o", data.parent / "int8.onnx")

    assert finished.code == 2
    assert (
        "--isa: needs a target whose runtime can be restricted to these instruction sets\nhint: give --target NAME"
    ) in finished.err


def test_latency_is_measured_with_the_instructions_of_a_set(edgekit: RunEdgeKit, bundle: Path) -> None:
    finished = edgekit("bench", bundle, "--device", "isa:avx2", "--json")

    assert finished.code == 0
    assert all(model["executed_by"].endswith(", isa:avx2") for model in finished.json["candidates"])


def test_names_of_instruction_sets(edgekit: RunEdgeKit, bundle: Path) -> None:
    with pytest.raises(InputError) as caught:
        open_device("isa:sse9")
    assert str(caught.value) == (
        "isa:sse9: no such instruction set\nexpected: avx2, avx512, vnni, amx, neon\nfound: sse9"
    )
    finished = edgekit("verify", bundle, "--isa", "avx2,")
    assert finished.code == 2
    assert (
        "--isa avx2,: no such instruction set\nexpected: avx2, avx512, vnni, amx, neon\nfound: nothing" in finished.err
    )


@pytest.fixture
def of_onnxruntime(edgekit: RunEdgeKit, saturating: Path, data: Path, tmp_path: Path) -> Path:
    made = tmp_path / "bundle"
    arguments = ("package", saturating, "--target", "onnxruntime", "--data", data, "--quantize", "none", "-o", made)
    assert edgekit(*arguments).code == 0
    return made


def test_a_runtime_without_a_switch_says_so(
    edgekit: RunEdgeKit, of_onnxruntime: Path, unlimited: Callable[[str], None], without_emulator: None
) -> None:
    unlimited(" ".join(flag for flags in FLAGS.values() for flag in flags))

    finished = edgekit("verify", of_onnxruntime, "--isa", "avx2")

    assert finished.code == 2
    assert "isa:avx2: its runtime has no switch that holds it to an instruction set\nfound: onnxruntime" in finished.err


@needs_vnni
@needs_emulator
@pytest.mark.slow
def test_an_emulator_executes_a_runtime_without_a_switch(edgekit: RunEdgeKit, saturating_integers: Path) -> None:
    finished = edgekit("verify", saturating_integers, "--isa", "avx2")

    assert finished.code == 1
    assert "does not compute its golden outputs, executed by ONNX Runtime" in finished.err
    assert ", Haswell-noTSX in QEMU, isa:avx2" in finished.err
    assert edgekit("verify", saturating_integers, "--isa", own_set() or "").code == 0  # VNNI or better


@needs_emulator
@pytest.mark.slow
def test_package_writes_unsigned_weights_for_onnxruntime_where_signed_ones_saturate(
    edgekit: RunEdgeKit, saturating_integers: Path, data: Path, tmp_path: Path
) -> None:
    model, made = saturating_integers.with_name("integers.onnx"), tmp_path / "unsigned"
    asked = ("--target", "onnxruntime", "--data", data, "--quantize", "none", "--isa", "avx2")

    assert edgekit("package", model, *asked, "-o", made).code == 0

    manifest = read_bundle(made).manifest
    build = next(stage for stage in reversed(manifest["stages"]) if stage["name"] == "build")
    assert build["record"]["unsigned_weights"] is True
    weights = {
        value.dtype for value in ir.load(made / "model.onnx").graph.initializers.values() if len(value.shape) > 1
    }
    assert weights == {ir.DataType.UINT8}
    assert {own_set(), "avx2"} <= {*manifest["instruction_sets"]["verified"]}


@pytest.fixture
def saturating_integers(edgekit: RunEdgeKit, data: Path, tmp_path: Path) -> Path:
    """A bundle for ONNX Runtime, whose integer kernel needs a quantized output."""
    text = WRITTEN.replace("y = Conv(d, v)", "c = Conv(d, v)  i = QuantizeLinear(c, to, zero)").replace(
        "\n}", "  y = DequantizeLinear(i, to, zero)\n}"
    )
    integers = np.where(np.random.default_rng(5).random((OUTPUTS, INPUTS, 1, 1)) < 0.9, 127, -127).astype(np.int8)
    scales = {"step": np.float32(1 / 255), "zero": np.uint8(0), "to": np.float32(64 / 255)}
    arrays = {name: np.asarray(value) for name, value in scales.items()}
    path, made = tmp_path / "integers.onnx", tmp_path / "integers"
    ir.save(_model(text, w=integers, scale=np.full(OUTPUTS, 1 / 127, np.float32), **arrays), path)
    arguments = ("package", path, "--target", "onnxruntime", "--data", data, "--quantize", "none", "-o", made)
    assert edgekit(*arguments).code == 0
    return made


@needs_vnni
def test_candidates_are_judged_with_each_set_without_vnni(edgekit: RunEdgeKit, data: Path, tmp_path: Path) -> None:
    weights = np.random.default_rng(5).standard_normal((OUTPUTS, INPUTS, 1, 1)).astype(np.float32)
    ir.save(_model(BY_HAND, w=weights), tmp_path / "model.onnx")
    quantize = ("quantize", tmp_path / "model.onnx", "--scheme", "int8", "--target", "intel-cpu", "--data", data)
    finished = edgekit(*quantize, "-o", tmp_path / "int8.onnx", "--json")
    assert finished.code == 0
    chosen = next(each for each in finished.json["curve"] if each["candidate"] == finished.json["chosen"])
    assert {name.rpartition(":")[2] for name in chosen["settings"] if "isa:" in name} == {"avx2", "avx512"}


@needs_vnni
@needs_emulator
def test_quantize_tells_with_which_sets_candidates_were_not_judged(
    edgekit: RunEdgeKit, saturating: Path, data: Path
) -> None:
    arguments = ("quantize", saturating, "--data", data, "--scheme", "int8", "--isa", "avx2,neon", "--max-drop", "100%")
    for target, emulated in (("intel-cpu", {"neon"}), ("onnxruntime", {"avx2", "neon"})):
        finished = edgekit(*arguments, "--target", target, "-o", data.parent / "int8.onnx")
        assert finished.code == 0
        told = {line for line in finished.err.splitlines() if "not judged with" in line}
        assert told == {
            f"warning: not judged with {name}: only an emulator executes it here: `edgekit package --isa {name}` "
            "verifies the bundle with it"
            for name in emulated
        }


@needs_vnni
@pytest.mark.parametrize("scheme", [("--scheme", "int8-weights"), ("--smallest",), ("--max-size", "20kB")])
def test_a_set_that_is_asked_for_judges_weights_that_are_stored_alone(
    scheme: tuple[str, ...], edgekit: RunEdgeKit, data: Path, tmp_path: Path
) -> None:
    weights = np.random.default_rng(5).standard_normal((OUTPUTS, INPUTS, 1, 1)).astype(np.float32)
    ir.save(_model(BY_HAND, w=weights), tmp_path / "model.onnx")
    quantize = ("quantize", tmp_path / "model.onnx", *scheme, "--target", "intel-cpu", "-o", tmp_path / "q.onnx")
    finished = edgekit(*quantize, "--data", data, "--isa", "avx2", "--json")
    assert finished.code == 0
    chosen = next(each for each in finished.json["curve"] if each["candidate"] == finished.json["chosen"])
    assert {name.rpartition(":")[2] for name in chosen["settings"] if "isa:" in name} == {"avx2"}


def test_without_samples_a_set_that_is_asked_for_judges_nothing(edgekit: RunEdgeKit, tmp_path: Path) -> None:
    weights = np.random.default_rng(5).standard_normal((OUTPUTS, INPUTS, 1, 1)).astype(np.float32)
    ir.save(_model(BY_HAND, w=weights), tmp_path / "model.onnx")
    arguments = ("--scheme", "int8-weights", "--target", "intel-cpu", "--isa", "avx2", "-o", tmp_path / "q.onnx")
    finished = edgekit("quantize", tmp_path / "model.onnx", *arguments)
    assert finished.code == 0
    assert "warning: not judged with avx2: there are no samples to execute it on; give some with --data" in finished.err


@pytest.mark.parametrize(
    ("flags", "machine", "own"),
    [
        ("sse2", "x86_64", None),
        ("avx2", "x86_64", "avx2"),
        ("avx2 avx_vnni", "x86_64", "vnni"),
        ("avx2 avx512f avx512bw avx512dq avx512vl", "x86_64", "avx512"),
        ("avx2 avx512f avx512bw avx512dq avx512vl avx512_vnni amx_tile amx_int8", "x86_64", "amx"),
        ("", "aarch64", "neon"),
        ("", "arm64", "neon"),
    ],
)
def test_the_instruction_set_that_a_processor_computes_with(flags: str, machine: str, own: str | None) -> None:
    assert own_set(flags.split(), machine) == own


def test_the_check_says_when_a_bundle_was_verified_with_other_instructions() -> None:
    manifest = {"instruction_sets": {"verified": {"vnni": {}, "avx512": {}}}}
    assert note_on(manifest, "avx2") == "this processor computes with avx2; the bundle was verified on vnni, avx512"
    assert note_on(manifest, "vnni") is None
    assert note_on(manifest, None) is None
    assert note_on({}, "avx2") is None


NORMALIZED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 8, 1, 40] x) => (float[1, 40, 32] y) <int64[3] s = {1, 120, 40}> {
  c = Conv(x, w)  r = Reshape(c, s)  t = Transpose<perm = [0, 2, 1]>(r)
  n = LayerNormalization<axis = -1>(t, one, none)  y = MatMul(n, v)
}"""
"""OpenVINO held to AVX2 takes its kernel for AVX-512 for the normalization, and ends at 120 channels."""


@pytest.fixture
def normalized(tmp_path: Path) -> tuple[Path, Path]:
    """The model, and a folder of samples."""
    rng = np.random.default_rng(7)
    arrays = {"w": rng.standard_normal((120, 8, 1, 1)), "v": rng.standard_normal((120, 32))}
    arrays |= {"one": np.ones(120), "none": np.zeros(120)}
    path, folder = tmp_path / "normalized.onnx", tmp_path / "normalized"
    ir.save(_model(NORMALIZED, **{name: array.astype(np.float32) for name, array in arrays.items()}), path)
    folder.mkdir()
    for number in range(SAMPLES):
        np.savez(folder / f"{number}.npz", x=rng.standard_normal((1, 8, 1, 40)).astype(np.float32))
    return path, folder


@needs_vnni
def test_a_set_with_which_the_float_model_does_not_run_keeps_no_quantized_form_from_shipping(
    edgekit: RunEdgeKit, normalized: tuple[Path, Path], tmp_path: Path
) -> None:
    model, folder = normalized
    arguments = ("package", model, "--target", "intel-cpu", "--data", folder, "--quantize", "int8")
    shipped = edgekit(*arguments, "-o", tmp_path / "made")
    assert shipped.code == 0
    why = "avx2: the runtime restricted to this instruction set does not run the float model either"
    assert f"warning: not judged with {why}" in shipped.err
    assert f"warning: not executed with {why}" in shipped.err
    manifest = read_bundle(tmp_path / "made").manifest
    assert manifest["model"]["kind"] == "quantized"
    sets = manifest["instruction_sets"]
    assert "float model" in sets["not_executed"]["avx2"]
    assert {"vnni", "avx512"} <= set(sets["verified"])
    asked = edgekit(*arguments, "--isa", "avx2", "-o", tmp_path / "asked")
    assert asked.code == 1
    assert not (tmp_path / "asked").exists()


@needs_vnni
@pytest.mark.parametrize("scheme", ["int8-weights", "float16"])
def test_stored_weights_that_do_not_run_with_a_set_that_is_asked_for_are_refused(
    scheme: str, edgekit: RunEdgeKit, normalized: tuple[Path, Path], tmp_path: Path
) -> None:
    model, folder = normalized
    arguments = ("--scheme", scheme, "--target", "intel-cpu", "--data", folder, "-o", tmp_path / "q.onnx")
    finished = edgekit("quantize", model, *arguments, "--isa", "avx2")
    assert finished.code == 1
    assert "cannot be run: isa:avx2: the bundle's check ended before it answered" in finished.err
    assert not (tmp_path / "q.onnx").exists()


@needs_vnni
def test_sets_are_usable_where_the_float_model_is_right_with_them(normalized: tuple[Path, Path], data: Path) -> None:
    target, profile = find_profile("intel-cpu")
    path, folder = normalized
    model = Model(ir.load(path))
    samples = open_samples(folder, model.fed_inputs)
    sets = ExecutableSets(["avx2", "avx512"], model, target, profile, BuildOptions(), samples)
    assert not sets.found_unusable
    assert sets.usable == ("avx512",)
    assert "does not run the float model either" in sets.unusable["avx2"]
    assert pickle.loads(pickle.dumps(sets)).usable == ("avx512",)
    plain = Model(_model(BY_HAND, w=np.ones((OUTPUTS, INPUTS, 1, 1), np.float32)))
    usable = ExecutableSets(
        ["avx2", "avx512"], plain, target, profile, BuildOptions(), open_samples(data, plain.fed_inputs)
    )
    assert usable.usable == ("avx2", "avx512")


@needs_vnni
def test_a_set_that_was_found_unusable_is_not_tried_again(
    normalized: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, profile = find_profile("intel-cpu")
    path, folder = normalized
    model = Model(ir.load(path))
    samples = open_samples(folder, model.fed_inputs)
    artifact = target.build(model, profile, tmp_path, BuildOptions(draft=True))
    draft, runner = draft_bundle(artifact, profile, tmp_path), target.load(artifact.main, profile)
    sets = ExecutableSets(["avx2", "avx512"], model, target, profile, BuildOptions(), samples)
    assert sets.why_unusable("avx2", model, samples) is None  # nobody has asked yet
    assert sets.usable == ("avx512",)
    opened: list[str] = []

    def noted(name: str) -> Any:
        opened.append(name)
        return open_device(name)

    monkeypatch.setattr(executable_sets, "open_device", noted)
    with ExitStack() as closing:
        assert len(sets.opened(draft, runner, closing)) == 1
    assert opened == ["isa:avx512"]
    assert "does not run the float model either" in str(sets.why_unusable("avx2", model, samples))
    assert sets.why_unusable("avx512", model, samples) is None
    assert sets.why_unusable("avx2", Model(ir.load(path)), samples) is None
    assert sets.why_unusable("avx2", model, open_samples(folder, model.fed_inputs)) is None


@needs_vnni
def test_a_set_with_which_a_candidate_computes_the_same_counts_without_another_build(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, profile = find_profile("intel-cpu")
    plain = Model(_model(BY_HAND, w=np.ones((OUTPUTS, INPUTS, 1, 1), np.float32)))
    artifact = target.build(plain, profile, tmp_path, BuildOptions(draft=True))
    draft = draft_bundle(artifact, profile, tmp_path)
    runner = target.load(artifact.main, profile)
    samples = open_samples(data, plain.fed_inputs)
    sets = ExecutableSets(["avx2", "avx512"], plain, target, profile, BuildOptions(), samples)
    monkeypatch.delattr(type(target), "build")
    with ExitStack() as closing:
        found = sets.opened(draft, runner, closing)
        assert ["isa:avx2" in found[0].executed_by, "isa:avx512" in found[1].executed_by] == [True, True]


def test_the_processes_of_several_sets_start_side_by_side(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, profile = find_profile("intel-cpu")
    plain = Model(_model(BY_HAND, w=np.ones((OUTPUTS, INPUTS, 1, 1), np.float32)))
    artifact = target.build(plain, profile, tmp_path, BuildOptions(draft=True))
    runner = target.load(artifact.main, profile)
    both = threading.Barrier(2)

    class Waiting:
        def open(self, _: object) -> Any:
            both.wait(timeout=30)  # for the other one
            return nullcontext(runner)

    monkeypatch.setattr(executable_sets, "open_device", lambda _: Waiting())
    samples = open_samples(data, plain.fed_inputs)
    sets = ExecutableSets(["avx2", "avx512"], plain, target, profile, BuildOptions(), samples)
    with ExitStack() as closing:
        assert sets.opened(draft_bundle(artifact, profile, tmp_path), runner, closing) == [runner, runner]


@needs_vnni
def test_a_set_counts_with_which_a_candidate_saturates_and_the_float_model_is_right(
    saturating: Path, data: Path, tmp_path: Path
) -> None:
    target, profile = find_profile("intel-cpu")
    model = Model(ir.load(saturating))
    artifact = target.build(model, profile, tmp_path, BuildOptions(draft=True))
    runner = target.load(artifact.main, profile)
    plain = Model(_model(BY_HAND, w=np.ones((OUTPUTS, INPUTS, 1, 1), np.float32)))
    samples = open_samples(data, plain.fed_inputs)
    sets = ExecutableSets(["avx2"], plain, target, profile, BuildOptions(), samples)
    with ExitStack() as closing:
        (held,) = sets.opened(draft_bundle(artifact, profile, tmp_path), runner, closing)
        feeds = next(iter(samples)).feeds
        right, saturated = runner.run(feeds)["y"], held.run(feeds)["y"]
    assert sets.unusable == {}
    assert np.abs(saturated - right).max() > 0.1 * np.abs(right).max()


@needs_vnni
def test_stored_weights_are_executed_as_a_processor_without_vnni_does(edgekit: RunEdgeKit, tmp_path: Path) -> None:
    """OpenVINO would quantize activations, which oneDNN held to AVX2 has no kernel for."""
    rng = np.random.default_rng(8)
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 256] x) => (float[1, 10] y) {
        v = DequantizeLinear<axis = 1>(w, scale)  y = MatMul(x, v)
    }"""
    arrays = {"w": rng.integers(-127, 128, (256, 10)).astype(np.int8), "scale": np.full(10, 0.01, np.float32)}
    path, made = tmp_path / "stored.onnx", tmp_path / "stored"
    ir.save(_model(text, **arrays), path)
    assert edgekit("package", path, "--target", "intel-cpu", "--quantize", "none", "-o", made).code == 0
    for name in ("avx2", "avx512", "vnni"):
        finished = edgekit("verify", made, "--isa", name)
        assert finished.code == 0, finished.err
