"""Bundles in headless Chromium, as ``--device browser:…`` runs them."""

from __future__ import annotations

import copy
import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.diagnosis.divergence import compare_layers
from edgekit.errors import EdgeKitError, InputError, RequirementError
from edgekit.model import Model
from edgekit_onnxruntime.browser.chromium import VARIABLE as CHROMIUM_VARIABLE
from edgekit_onnxruntime.browser.device import VARIABLE as LIBRARY_VARIABLE
from edgekit_onnxruntime.browser.device import BrowserDevice
from edgekit_onnxruntime.browser.wire import NUMBERS

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser-device")]

ZOO_SHAPES = {"qonnx_mnist_conv": (1, 1, 28, 28), "speech_embedding": (1, 76, 32, 1)}

DigitsBundle = Callable[[str, str], Path]
BareBundle = Callable[..., Bundle]


@pytest.fixture(autouse=True)
def _with_library(web_library: None) -> None:
    """Every test here runs a browser."""


def model(graph: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 17]> {graph}')


def browsers() -> set[int]:
    """The Chromium processes that this process started, and the processes that those started."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            is_ours = b"edgekit-browser-" in (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if is_ours and int(words[1]) == os.getpid():
            found.add(int(folder.name))
    return found


def pages(leader: int) -> set[int]:
    """The processes of pages in the group of a Chromium."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(words[2]) == leader and b"--type=renderer" in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
        except OSError:
            continue
    return found


def leftovers(temporary: Path) -> list[Path]:
    return [path for path in temporary.iterdir() if path.name.startswith("edgekit-")]


@pytest.mark.parametrize("quantize", ["none", "int8"])
@pytest.mark.parametrize("build", ["wasm", "webgpu"])
def test_the_digits_bundle_passes(build: str, quantize: str, digits_bundle: DigitsBundle, temporary: Path) -> None:
    bundle = read_bundle(digits_bundle("digits-web", quantize))
    verification = verify_bundle(bundle, device=BrowserDevice.from_url(f"browser:{build}"))
    for part in ("onnxruntime-web", f"{build} build", "Chromium", "WebGPU on" if build == "webgpu" else "WebAssembly"):
        assert part in verification.executed_by
    assert "nothing of the model" not in verification.executed_by
    assert leftovers(temporary) == []
    assert browsers() == set()


def test_a_quantized_model_computes_the_same_bits_in_webassembly_as_here(digits_bundle: DigitsBundle) -> None:
    bundle = read_bundle(digits_bundle("digits-web", "int8"))
    here = onnxruntime.InferenceSession(bundle.main, providers=["CPUExecutionProvider"])
    with BrowserDevice.from_url("browser").open(bundle) as session:
        for feeds, _ in bundle.golden():
            (expected,) = here.run(None, feeds)
            np.testing.assert_array_equal(session.run(feeds)["logits"], expected)


def test_a_device_that_computes_something_else_is_caught(digits_bundle: DigitsBundle) -> None:
    """onnxruntime-web's WebGPU provider in JavaScript returns garbage for models with QuantizeLinear."""
    bundle = read_bundle(digits_bundle("digits-web", "int8"))
    with pytest.raises(RequirementError, match="golden outputs") as caught:
        verify_bundle(bundle, device=BrowserDevice.from_url("browser:jsep"))
    assert "jsep build" in str(caught.value)


def test_the_command_line_refuses_it_and_names_the_first_diverging_layer(
    digits_bundle: DigitsBundle, edgekit: Callable[..., Any]
) -> None:
    bundle = digits_bundle("digits-web", "int8")
    finished = edgekit("verify", bundle, "--device", "browser:jsep", "--layers", "--json")
    assert finished.code == 1
    error = finished.json["error"]
    assert "first diverging layer: " in error["found"]
    # The first that dequantizes what a node computes: constants are folded before anything runs.
    first = error["layers"]["first"]
    nodes = onnx.load(bundle / "model.onnx").graph.node
    computed = {name for node in nodes for name in node.output}
    dequantized = [node for node in nodes if node.op_type == "DequantizeLinear" and node.input[0] in computed]
    assert (first["op_type"], first["value"]) == ("DequantizeLinear", dequantized[0].output[0])
    other = edgekit("verify", bundle, "--device", "browser:wasm", "--layers", "--json")
    assert other.code == 0
    assert other.json["layers"]["first"] is None


def test_a_weight_that_is_wrong_in_the_bundle_is_found(bare_bundle: BareBundle) -> None:
    random = np.random.default_rng(3)
    weights = {name: random.normal(size=(4, 4)).astype(np.float32) for name in ("va", "vb")}
    original = model(
        "g (float[1, 4] x) => (float[1, 4] y) { a = MatMul(x, va) b = Tanh(a) c = MatMul(b, vb) y = Neg(c) }"
    )
    spoilt = copy.deepcopy(original)
    for proto, matrix in ((original, weights["vb"]), (spoilt, weights["vb"].T)):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weights["va"], "va"))
        proto.graph.initializer.append(onnx.numpy_helper.from_array(matrix.copy(), "vb"))
    bundle = bare_bundle(spoilt, kind="float32")
    with BrowserDevice.from_url("browser:wasm").open(bundle) as session:
        feeds = {"x": np.ones((1, 4), np.float32)}
        divergence = compare_layers(session, bundle, Model(ir.from_proto(original)), feeds)
    assert [layer.diverges for layer in divergence.layers] == [False, False, True, True]
    assert divergence.first is not None
    assert divergence.first.value == "c"


@pytest.mark.parametrize(
    ("options", "code"),
    [(["--device", "browser:webgl"], 2), (["--device", "browser:wasm"], 2), (["--device", "browser:webgpu"], 1)],
)
def test_exit_codes(
    options: list[str],
    code: int,
    digits_bundle: DigitsBundle,
    chromium_program: Path,
    edgekit: Callable[..., Any],
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exit codes for an unknown build, for a missing library, and for a browser without WebGPU."""
    without = f'exec {chromium_program} "$@" --disable-gpu --disable-software-rasterizer'
    monkeypatch.setenv(CHROMIUM_VARIABLE, str(script(tmp_path, without)))
    if options[1] == "browser:wasm":
        monkeypatch.setenv(LIBRARY_VARIABLE, str(tmp_path))
    finished = edgekit("verify", digits_bundle("digits-web", "none"), *options)
    assert finished.code == code
    assert "error: " in finished.err
    assert leftovers(temporary) == []
    assert browsers() == set()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "quantize"), list(itertools.product(ZOO_SHAPES, ("none", "int8"))))
def test_models_of_the_zoo_pass(name: str, quantize: str, zoo_bundle: Callable[[str, str, str], Bundle]) -> None:
    bundle = zoo_bundle(name, "web", quantize)
    verify_bundle(bundle, device=BrowserDevice.from_url("browser:wasm"))


def test_every_element_type_goes_there_and_back(bare_bundle: BareBundle) -> None:
    kinds = {name: onnx.helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in NUMBERS}
    kinds["string"] = onnx.TensorProto.STRING
    values = {
        side: [onnx.helper.make_tensor_value_info(f"{side}_{name}", kind, [2, 2]) for name, kind in kinds.items()]
        for side in "xy"
    }
    nodes = [onnx.helper.make_node("Identity", [f"x_{name}"], [f"y_{name}"]) for name in kinds]
    graph = onnx.helper.make_graph(nodes, "g", values["x"], values["y"])
    bundle = bare_bundle(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9))
    feeds = {f"x_{name}": np.array([[0, 1], [1, 0]]).astype(name) for name in NUMBERS}
    feeds["x_int64"] = np.array([[-(2**62), 2**62], [2**53 + 1, -1]])
    feeds["x_float16"] = np.array([[0.1, -65504], [6e-8, np.inf]], np.float16)
    feeds["x_string"] = np.array([["a", "ü"], ["", "c d"]], dtype=object)
    with BrowserDevice.from_url("browser:wasm").open(bundle) as session:
        results = session.run(feeds)
    for name, array in feeds.items():
        result = results[f"y{name[1:]}"]
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result, array)


def test_scalars_and_empty_arrays_keep_their_shapes(bare_bundle: BareBundle) -> None:
    bundle = bare_bundle(model("g (float x, float[0, 3] e) => (float y, float[0, 3] f) { y = Abs(x) f = Abs(e) }"))
    with BrowserDevice.from_url("browser:wasm").open(bundle) as session:
        results = session.run({"x": np.float32(-2), "e": np.zeros((0, 3), np.float32)})
    assert results["y"] == 2
    assert {name: array.shape for name, array in results.items()} == {"y": (), "f": (0, 3)}


def test_tensors_in_a_file_of_their_own_are_found(tmp_path: Path, bare_bundle: BareBundle) -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Add(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    bundle = bare_bundle(proto)
    onnx.save(proto, bundle.main, save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    with BrowserDevice.from_url("browser:wasm").open(bundle) as session:
        assert session.run({"x": np.zeros(2, np.float32)})["y"].tolist() == [1, 2]


def test_time_is_measured_by_the_pages_own_clock(digits_bundle: DigitsBundle) -> None:
    bundle = read_bundle(digits_bundle("digits-web", "none"))
    feeds, _ = next(bundle.golden())
    with BrowserDevice.from_url("browser:wasm").open(bundle) as session:
        timing = session.time(feeds, 5, 1)
        assert not session.is_stand_in
    assert len(timing.milliseconds) == 5
    assert 0 < min(timing.milliseconds) < timing.load_ms
    assert timing.settings["threads"] == "1"
    assert timing.settings["clock"] == "isolated page"
    assert timing.peak_memory is not None
    assert timing.peak_memory > 2**20


def test_two_browsers_can_be_open_at_a_time(digits_bundle: DigitsBundle) -> None:
    bundle = read_bundle(digits_bundle("digits-web", "none"))
    feeds, outputs = next(bundle.golden())
    device = BrowserDevice.from_url("browser:wasm")
    with device.open(bundle) as one, device.open(bundle) as other:
        for session in (one, other, one):
            np.testing.assert_allclose(session.run(feeds)["logits"], outputs["logits"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("build", ["wasm", "webgpu"])
def test_values_inside_the_model_are_shown(build: str, bare_bundle: BareBundle) -> None:
    bundle = bare_bundle(model("g (float[2] x) => (float[2] y) { a = Neg(x) b = Exp(a) c = Add(b, a) y = Sqrt(c) }"))
    x = np.array([0.5, -1], np.float32)
    with BrowserDevice.from_url(f"browser:{build}").open(bundle) as session:
        shown = session.intermediates({"x": x}, ["a", "b"])
        result = session.run({"x": x})
        assert session.is_stand_in == ("(software)" in session.executed_by)
    assert shown is not None
    assert set(shown) == {"a", "b"}
    np.testing.assert_allclose(shown["b"], np.exp(-x), rtol=1e-5)
    np.testing.assert_allclose(result["y"], np.sqrt(np.exp(-x) - x), rtol=1e-5)  # the model itself is back


def test_what_onnxruntime_web_cannot_load_is_told_and_nothing_is_left(bare_bundle: BareBundle, temporary: Path) -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Abs(x) }")
    proto.graph.node[0].domain = "nobody.knows"
    proto.opset_import.append(onnx.helper.make_opsetid("nobody.knows", 1))
    with (
        pytest.raises(RequirementError, match=r"onnxruntime-web in the browser failed: .*nobody\.knows"),
        BrowserDevice.from_url("browser:wasm").open(bare_bundle(proto)),
    ):
        pass
    assert leftovers(temporary) == []
    assert browsers() == set()


@pytest.mark.parametrize("killed", ["browser", "page"])
def test_a_browser_that_dies_midway_is_told_and_nothing_is_left(
    killed: str, digits_bundle: DigitsBundle, temporary: Path
) -> None:
    bundle = read_bundle(digits_bundle("digits-web", "none"))
    feeds, _ = next(bundle.golden())
    with BrowserDevice.from_url("browser:wasm").open(bundle) as session:
        session.run(feeds)
        (leader,) = browsers()
        for process in {leader} if killed == "browser" else pages(leader):
            os.kill(process, signal.SIGKILL)
        with pytest.raises(RequirementError, match="went away"):
            session.run(feeds)
    assert leftovers(temporary) == []
    assert browsers() == set()


def test_a_page_that_is_stuck_is_given_up_and_nothing_is_left(bare_bundle: BareBundle, temporary: Path) -> None:
    endless = model(
        """g (int64 n, bool c, float x) => (float y) {
            y = Loop (n, c, x) <body = b (int64 i, bool ci, float v) => (bool co, float w) {
                co = Identity(ci) w = Neg(v)
            }>
        }"""
    )
    device = BrowserDevice.from_url("browser:wasm")
    device.timeout = 3
    feeds = {"n": np.array(2**40), "c": np.array(True), "x": np.array(1, np.float32)}
    with device.open(bare_bundle(endless)) as session:
        assert session.run(feeds | {"n": np.array(3)})["y"] == -1
        with pytest.raises(RequirementError, match="no answer for 3 s"):
            session.run(feeds)
    assert leftovers(temporary) == []
    assert browsers() == set()


def script(folder: Path, body: str) -> Path:
    program = folder / "my-chromium"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


def test_a_browser_without_webgpu_is_told_and_nothing_is_left(
    digits_bundle: DigitsBundle,
    chromium_program: Path,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without = (
        f'exec {chromium_program} "$@" --disable-features=WebGPUService --disable-gpu --disable-software-rasterizer'
    )
    monkeypatch.setenv(CHROMIUM_VARIABLE, str(script(tmp_path, without)))
    bundle = read_bundle(digits_bundle("digits-web", "none"))
    with (
        pytest.raises(RequirementError, match="no WebGPU"),
        BrowserDevice.from_url("browser:webgpu").open(bundle),
    ):
        pass
    assert leftovers(temporary) == []
    assert browsers() == set()


def test_a_chromium_that_does_not_start_is_told_and_nothing_is_left(
    digits_bundle: DigitsBundle,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = 'case "$*" in *--version*) echo Chromium 1.2.3;; *) echo cannot open the display >&2; exit 9;; esac'
    monkeypatch.setenv(CHROMIUM_VARIABLE, str(script(tmp_path, body)))
    with (
        pytest.raises(InputError, match="cannot open the display"),
        BrowserDevice.from_url("browser:wasm").open(read_bundle(digits_bundle("digits-web", "none"))),
    ):
        pass
    assert leftovers(temporary) == []


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (CHROMIUM_VARIABLE, "/nowhere/chromium", "no such program"),
        (CHROMIUM_VARIABLE, "true", "is not Chromium"),
        (LIBRARY_VARIABLE, "/nowhere", "npm install"),
    ],
)
def test_what_is_missing_is_told(
    variable: str, value: str, message: str, digits_bundle: DigitsBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with (
        pytest.raises(InputError, match=message),
        BrowserDevice.from_url("browser:wasm").open(read_bundle(digits_bundle("digits-web", "none"))),
    ):
        pass


def test_other_bundles_are_refused(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path, {"model": {"main": "model.mlpackage"}, "target": {"profile": "ios18"}})
    with pytest.raises(RequirementError, match="ONNX models only"), BrowserDevice.from_url("browser").open(bundle):
        pass


def test_other_builds_are_refused() -> None:
    with pytest.raises(EdgeKitError, match="no such build"):
        BrowserDevice.from_url("browser:webgl")
