"""Libraries that EdgeKit uses have telemetry that is on by default: nothing is sent, and no file of it is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import honest
import pytest

import edgekit

MODULES = (
    "edgekit.execution.reference",
    "edgekit_quantize.graph.session",
    "edgekit_mlruntime.runner",
    "edgekit_onnxruntime.session",
)


def python(program: str, temporary: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "CI")}
    finished = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**kept, "TMPDIR": str(temporary)},
    )
    return finished.stdout


@pytest.mark.parametrize("module", MODULES)
def test_onnx_runtime_has_its_telemetry_off_where_it_is_used(module: str, tmp_path: Path) -> None:
    program = f"import {module}, onnxruntime, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    assert python(program, tmp_path) == "1\n"
    assert list(tmp_path.iterdir()) == []  # the uploader leaves a file .ses


def test_openvino_converts_without_its_telemetry(tmp_path: Path) -> None:
    honest.write_model("", tmp_path / "m.onnx", honest.MODELS["net"]())
    (tmp_path / "tmp").mkdir()
    program = (
        "import sys, pathlib, edgekit_openvino\n"
        "sys.addaudithook(lambda event, _: event.startswith('socket.') and sys.exit(event))\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "edgekit_openvino.convert(folder / 'm.onnx', folder / 'o.xml')\n"
        "import openvino.tools.ovc.convert_impl as used\n"
        "print(used.tm.__name__)"
    )
    assert python(program, tmp_path / "tmp") == "openvino.tools.ovc.telemetry_stub\n"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_check_in_an_openvino_bundle_sends_nothing(tmp_path: Path) -> None:
    honest.write_model("", tmp_path / "m.onnx", honest.MODELS["net"]())
    edgekit.package(tmp_path / "m.onnx", "intel-cpu", tmp_path / "bundle")
    (tmp_path / "tmp").mkdir()
    program = (
        "import atexit, runpy, sys\n"
        "def last():\n"
        "    loaded = [name for name, module in sys.modules.items() if module is not None]\n"
        "    assert 'openvino' in loaded\n"
        "    print([name for name in loaded if name.startswith(('openvino_telemetry', 'openvino.tools.ovc'))])\n"
        "atexit.register(last)\n"
        "sys.addaudithook(lambda event, _: event.startswith('socket.') and sys.exit(event))\n"
        f"sys.argv = ['check.py']; sys.path.insert(0, {str(tmp_path / 'bundle')!r})\n"
        f"runpy.run_path({str(tmp_path / 'bundle' / 'check.py')!r}, run_name='__main__')"
    )
    # OpenVINO's conversion tools, which report every import, are not loaded either.
    assert python(program, tmp_path / "tmp").endswith("\n[]\n")
