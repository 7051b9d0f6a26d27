"""Bundles for execution providers, executed by providers: OpenVINO's on this CPU, Qualcomm's in its simulator."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgekit.bundle import check_integrity, read_bundle
from edgekit.device_check.python_check import SERVE
from edgekit.devices.channel import Channel
from edgekit.devices.local import LocalDevice
from edgekit.devices.own_check import with_own_check
from edgekit.devices.service_session import ServiceSession
from edgekit.errors import InputError, RequirementError
from edgekit.reporting.summary import stage_record, summary_rows
from edgekit_onnxruntime import qnn
from edgekit_onnxruntime.simulator import SimulatorDevice

RunCheck = Callable[..., "subprocess.CompletedProcess[str]"]
BundleFor = Callable[..., Path]

WHOLE = "(float[1, 8] x) => (float[1, 8] y) { a = Relu(x) b = Exp(a) y = Softmax(b) }"
WITH_A_REST = "(float[1, 3, 3] x) => (float[1] y, float[1, 3, 3] z) { y = Det(x) a = Relu(x) z = Exp(a) }"
"""OpenVINO's provider 1.24.1 leaves Det."""
PASSED = "the device computes what the original model computes\n"


@pytest.fixture(scope="module")
def whole(bundle_for: BundleFor) -> Path:
    return bundle_for(WHOLE, "openvino-ep")


@pytest.fixture(scope="module")
def with_a_rest(bundle_for: BundleFor) -> Path:
    return bundle_for(WITH_A_REST, "openvino-ep")


@pytest.mark.slow
def test_openvinos_provider_executes_a_bundle(whole: Path, run_check: RunCheck, openvino_build: Path) -> None:
    done = run_check(whole, "--no-fallback", build=openvino_build)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(PASSED)
    assert "OpenVINO+CPU, 3 of 3 nodes on OpenVINO, model.onnx, 1 thread\n" in done.stderr
    check_integrity(read_bundle(whole))


@pytest.mark.slow
def test_nodes_that_a_provider_leaves_are_told(with_a_rest: Path, run_check: RunCheck, openvino_build: Path) -> None:
    done = run_check(with_a_rest, build=openvino_build)
    assert done.returncode == 0, done.stderr
    assert "2 of 3 nodes on OpenVINO, the rest on the CPU: Det, model.onnx" in done.stderr


@pytest.mark.slow
def test_without_a_fallback_a_provider_that_leaves_nodes_fails(
    with_a_rest: Path, run_check: RunCheck, openvino_build: Path
) -> None:
    done = run_check(with_a_rest, "--no-fallback", build=openvino_build)
    assert done.returncode == 1
    assert "OpenVINOExecutionProvider does not take model.onnx: " in done.stderr
    assert "fallback to CPU EP has been explicitly disabled" in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("device_type=AUTO", "OpenVINOExecutionProvider took none of the 3 nodes; all of them are on CPU"),
        ("no_such_option=1", "OpenVINOExecutionProvider does not take model.onnx: Invalid OpenVINO EP option"),
        ("device_type=GPU.7", "OpenVINOExecutionProvider cannot start with its options"),
    ],
)
def test_what_onnx_runtime_would_run_on_the_cpu_is_no_success(
    whole: Path, run_check: RunCheck, openvino_build: Path, option: str, message: str
) -> None:
    """OpenVINO's automatic choice needs two devices; ONNX Runtime's API for Python opens all three on the CPU."""
    done = run_check(whole, "--provider-option", option, build=openvino_build)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stdout == ""


def test_a_build_without_the_provider_is_no_success(whole: Path, run_check: RunCheck) -> None:
    done = run_check(whole)
    assert done.returncode == 1
    assert "this onnxruntime has no OpenVINOExecutionProvider; it would run on " in done.stderr


def test_on_the_processor_a_bundle_for_a_provider_runs(whole: Path, run_check: RunCheck) -> None:
    done = run_check(whole, "--cpu")
    assert done.returncode == 0, done.stderr
    assert ", CPU, model.onnx, 1 thread\n" in done.stderr


@pytest.mark.slow
def test_what_the_provider_compiled_is_kept_outside_the_bundle(
    whole: Path, run_check: RunCheck, openvino_build: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        assert run_check(whole, "--cache", tmp_path / "cache", build=openvino_build).returncode == 0
        assert [file.suffix for file in (tmp_path / "cache").iterdir()] == [".blob"]
    check_integrity(read_bundle(whole))


@pytest.mark.slow
def test_open_dimensions_run_at_their_sizes(bundle_for: BundleFor, run_check: RunCheck, openvino_build: Path) -> None:
    bundle = bundle_for("(float[n, 8] x) => (float[n, 8] y) { a = Relu(x) y = Softmax(a) }", "openvino-ep", "n=1..4")
    assert {1, 4} <= {feeds["x"].shape[0] for feeds, _ in read_bundle(bundle).golden()}
    done = run_check(bundle, build=openvino_build)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 nodes on OpenVINO" in done.stderr


@pytest.mark.slow
def test_a_host_sees_what_the_provider_has(with_a_rest: Path, openvino_build: Path) -> None:
    """As `verify` and `bench` do it with a device that they reach, which has that build."""
    bundle = read_bundle(with_a_rest)
    feeds, golden = next(bundle.golden())
    environment = {"PYTHONPATH": str(openvino_build)}
    with (
        with_own_check(bundle) as ours,
        Channel([sys.executable, *SERVE], 60, folder=ours.path, environment=environment) as channel,
    ):
        session = ServiceSession(channel, bundle, "a device")
        assert "2 of 3 nodes on OpenVINO, the rest on the CPU: Det" in session.executed_by
        np.testing.assert_allclose(session.run(feeds)["z"], golden["z"], rtol=1e-5)
        assert session.time(feeds, 2, 0).settings == {
            "threads": "1",
            "provider": "OpenVINOExecutionProvider",
            "nodes_on_provider": "2 of 3",
            "left_to_cpu": "Det",
        }


@pytest.mark.slow
def test_a_host_is_told_that_a_device_lacks_the_provider(whole: Path) -> None:
    with (
        with_own_check(read_bundle(whole)) as ours,
        Channel([sys.executable, *SERVE], 60, folder=ours.path) as channel,
        pytest.raises(RequirementError, match="this onnxruntime has no OpenVINOExecutionProvider"),
    ):
        ServiceSession(channel, ours, "a device")


needs_qnn = pytest.mark.skipif(not qnn.is_installed(), reason="onnxruntime-qnn is not installed")


@needs_qnn
@pytest.mark.slow
def test_qualcomms_provider_executes_a_bundle_in_its_simulator(
    bundle_for: BundleFor, run_check: RunCheck, tmp_path: Path
) -> None:
    """The second time what the first one compiled is loaded: one node, which holds the model."""
    bundle = bundle_for(WHOLE, "android-qnn")
    for share in ("3 of 3", "1 of 1"):
        done = run_check(bundle, "--cache", tmp_path / "cache", "--json")
        assert done.returncode == 0, done.stderr
        assert f"QNN+CPU, {share} nodes on QNN, model.onnx, 1 thread\n" in done.stderr
        assert "model_ctx.onnx" in {file.name for file in (tmp_path / "cache").iterdir()}
        (output,) = json.loads(done.stdout.splitlines()[-1])["outputs"]
        assert 40 < output["sqnr_db"] < 90  # half precision, not the CPU's float32, which gives infinity


@needs_qnn
@pytest.mark.slow
def test_the_simulator_is_a_device(bundle_for: BundleFor) -> None:
    bundle = read_bundle(bundle_for(WHOLE, "android-qnn"))
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(bundle.inputs[0].shape)
    with SimulatorDevice.from_url("simulator").open(bundle) as session, LocalDevice().open(bundle) as local:
        assert "QNN+CPU, 3 of 3 nodes on QNN" in session.executed_by
        assert session.executed_by.endswith("in Qualcomm's simulator of the NPU")
        assert session.is_stand_in
        (name,) = (output.name for output in bundle.outputs)
        simulated, by_cpu = session.run({bundle.inputs[0].name: x})[name], local.run({bundle.inputs[0].name: x})[name]
    np.testing.assert_allclose(simulated, by_cpu, atol=2e-3 * np.abs(by_cpu).max())
    assert not np.array_equal(simulated, by_cpu)  # half precision


@needs_qnn
@pytest.mark.slow
def test_what_is_packaged_is_executed_in_the_simulator(bundle_for: BundleFor) -> None:
    manifest = read_bundle(bundle_for(WHOLE, "android-qnn")).manifest
    record = stage_record(manifest, "simulate")
    assert record["executed_by"].endswith("in Qualcomm's simulator of the NPU")
    assert record["warnings"] == []
    (text,) = (text for label, text in summary_rows(manifest) if label == "simulated")
    assert re.match(r"y: SQNR \d\d\.\d dB, .* on its worst sample, on \d samples; executed by ONNX Runtime", text)


@needs_qnn
@pytest.mark.slow
def test_numbers_that_the_npu_cannot_hold_are_told(bundle_for: BundleFor) -> None:
    """Of numbers up to 4, the exponential of their 20-fold is beyond half precision, and its logarithm is not."""
    body = "f = Constant <value_float = 20.0> () a = Mul(x, f) b = Exp(a) y = Log(b)"
    graph = f"(float[1, 8] x) => (float[1, 8] y) {{ {body} }}"
    manifest = read_bundle(bundle_for(graph, "android-qnn")).manifest
    (warning,) = stage_record(manifest, "simulate")["warnings"]
    assert warning.startswith("in the simulator of the device what was built as float")
    assert "output 'y'" in warning
    assert warning.endswith("; no other form is left")


def test_the_simulator_takes_bundles_of_its_chip(bundle_for: BundleFor, monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimulatorDevice.from_url("simulator")
    with pytest.raises(RequirementError) as caught, device.open(read_bundle(bundle_for(WHOLE, "android-cpu"))):
        pass
    assert "there is no simulator of its device" in str(caught.value)
    assert "found: one for android-cpu" in str(caught.value)
    monkeypatch.setattr(qnn, "PACKAGE", "no_such_package")
    with pytest.raises(InputError) as missing, device.open(read_bundle(bundle_for(WHOLE, "android-qnn"))):
        pass
    assert str(missing.value).splitlines() == [
        "--device simulator: the simulator is not installed",
        "hint: pip install 'onnxruntime-qnn>=2.7' on x86-64 Linux brings it",
    ]
    with pytest.raises(InputError, match="--device: the bundle tells the chip"):
        SimulatorDevice.from_url("simulator:v75")


@needs_qnn
@pytest.mark.slow
def test_nodes_that_qualcomms_provider_leaves_are_told(bundle_for: BundleFor, run_check: RunCheck) -> None:
    bundle = bundle_for("(float[1, 8] x) => (float[1, 8] y) { a = Erf(x) y = Softmax(a) }", "android-qnn")
    done = run_check(bundle)
    assert done.returncode == 0, done.stderr
    assert "1 of 2 nodes on QNN, the rest on the CPU: Erf" in done.stderr


PLACED = """
import json, sys
import onnx_ir as ir
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit_onnxruntime.by_table import measured_verdicts
from edgekit_onnxruntime.check import cpu_verdicts, verdicts
from edgekit_onnxruntime.devices import devices

device = devices()["openvino-ep"]
model = infer_shapes(Model(ir.load(sys.argv[1])), strict=False)
by_table = measured_verdicts(model, cpu_verdicts(model), device, device.measured)
asked = verdicts(model, device.profile)
print(json.dumps([[v.support, w.support, w.evidence] for v, w in zip(by_table, asked, strict=True)]))
"""


@pytest.mark.slow
def test_the_table_tells_what_openvinos_provider_does(
    digits_bundle: Callable[[str, str], Path], openvino_build: Path
) -> None:
    """The bundle's model has fixed shapes; in that build the check asks the provider itself."""
    model = digits_bundle("digits-onnxruntime", "none") / "model.onnx"
    done = subprocess.run(
        [sys.executable, "-c", PLACED, str(model)],
        env={**os.environ, "PYTHONPATH": str(openvino_build)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert {evidence for _, _, evidence in told} == {"compiled"}
    assert [table for table, _, _ in told] == [asked for _, asked, _ in told]


OPEN_AND_RUN = """
import sys, numpy, open_session
session = open_session.open_session(".")
print(session.get_providers()[0], session.run(None, {"x": numpy.float32([[-1, 0, 1, 2, 3, 4, 5, 6]])})[0].argmax())
"""


@pytest.mark.slow
def test_an_app_opens_the_session_as_the_check_does(whole: Path, openvino_build: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", OPEN_AND_RUN],
        cwd=whole,
        env={"PYTHONPATH": f"{openvino_build}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "OpenVINOExecutionProvider 7\n", done.stderr
