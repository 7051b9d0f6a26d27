"""What executes a build for an execution provider on a machine that has it: OpenVINO's provider, on this CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from edgekit.registry import find_profile
from edgekit_onnxruntime import on_this_machine
from edgekit_onnxruntime.devices import NOT_STARTED, devices
from edgekit_onnxruntime.session_recipe import session_text
from edgekit_onnxruntime.target import ONNXRuntimeTarget

Edgekit = Callable[..., "subprocess.CompletedProcess[str]"]
LAYERS = "(float[1, 8] x) => (float[1, 8] y) { a = Relu(x) b = Exp(a) y = Softmax(b) }"
NOTHING_OF_IT = "(float[1, 3, 3] x) => (float[1] y) { y = Det(x) }"
"""OpenVINO's provider 1.24.1 leaves Det."""


@pytest.fixture
def edgekit(openvino_build: Path, tmp_path: Path) -> Edgekit:
    """The command line, in an installation whose ONNX Runtime has OpenVINO's provider."""

    def run(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g {body}')
        onnx.save(model, tmp_path / "model.onnx")
        command = [sys.executable, "-m", "edgekit", "package", str(tmp_path / "model.onnx"), "--target", "openvino-ep"]
        return subprocess.run(
            [*command, "-o", str(tmp_path / "bundle"), *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(openvino_build), os.environ.get("PYTHONPATH", "")])},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["auto", "float16"])
def test_the_provider_executes_what_is_packaged_for_it(edgekit: Edgekit, tmp_path: Path, precision: str) -> None:
    done = edgekit(LAYERS, "--precision", precision)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["target"]["runs_here"] is True
    assert manifest["accuracy"]["executed_by"].endswith("OpenVINO+CPU, onnx, 1 thread, 3 of 3 nodes on OpenVINO")


@pytest.mark.slow
def test_a_model_of_which_the_provider_takes_nothing_is_refused(edgekit: Edgekit) -> None:
    done = edgekit(NOTHING_OF_IT)
    assert done.returncode == 1
    assert "OpenVINOExecutionProvider took none of the 1 nodes; all of them are on CPU" in done.stderr
    assert "hint: `edgekit check` tells why; --target onnxruntime is for the CPU" in done.stderr


@pytest.mark.parametrize("name", ["cuda", "openvino-ep", "android-xnnpack", "onnxruntime"])
def test_without_the_provider_the_profile_is_as_it_was(name: str) -> None:
    target, profile = find_profile(name)
    assert profile in target.profiles


def test_a_provider_that_does_not_start_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine whose onnxruntime-gpu finds no driver; Azure's provider, which is there, takes no MatMul."""
    target, cuda = ONNXRuntimeTarget(), devices()["cuda"]
    elsewhere = replace(cuda, provider="AzureExecutionProvider")
    monkeypatch.setattr("edgekit_onnxruntime.target.devices", lambda: {"cuda": elsewhere})
    found = target.on_this_machine(cuda.profile)
    assert not found.runs_here
    assert found.options[NOT_STARTED] == (
        "this ONNX Runtime has AzureExecutionProvider, which does not start: it does not take a product of two "
        "matrices, the test model; the CPU provider executes the model here"
    )


def test_what_ends_without_an_answer_did_not_start() -> None:
    text = on_this_machine.failure_to_start("NoSuchProvider")
    assert "NoSuchProvider" in text


@pytest.mark.parametrize("precision", ["auto", "float16"])
@pytest.mark.parametrize("name", ["cuda", "openvino-ep", "tensorrt"])
def test_the_precision_of_a_session_file_is_read_back(name: str, precision: str) -> None:
    device = devices()[name]
    assert device.session is not None
    text = session_text(device.session.record(device.provider, precision, (), {}))
    assert device.session.precision_of(device.provider, text) == precision


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            "/src/cuda_call.cc:154 void onnxruntime::CudaCall() [with THRW = true] CUDA failure 100: no CUDA-capable "
            "device is detected ; GPU=-1 ; hostname=vm",
            "CUDA failure 100: no CUDA-capable device is detected",
        ),
        ("", "RuntimeError"),
    ],
)
def test_what_providers_say_is_told_without_its_place(error: str, text: str) -> None:
    """The first is of onnxruntime-gpu 1.31.1 on a machine whose GPU was hidden, shortened."""
    assert on_this_machine._said(RuntimeError(error)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"provider_options": 3}',
        '{"provider_options": {"use_tf32": "2"}}',
        '{"provider_options": {"use_tf32": ["1"]}}',
        "[" * 100_000,
    ],
)
def test_a_strangers_session_file_tells_no_precision(text: str) -> None:
    device = devices()["cuda"]
    assert device.session is not None
    assert device.session.precision_of(device.provider, text) == "auto"
