"""Libraries under EdgeKit have telemetry that is on by default; nothing is sent, and nothing is left for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import honest
import pytest

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
