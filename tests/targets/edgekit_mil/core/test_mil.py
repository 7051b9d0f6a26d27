"""What is imported to build programs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


@needs_torch
def test_a_command_does_not_import_torch(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[1, 4] x) => (float[1, 4] y) { y = Sin(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    script = """
import sys
from edgekit import __main__ as program
command = program._command
def noted():
    code = command()
    print("imported", *sorted({"coremltools", "torch"} & {*sys.modules}), flush=True)
    return code
program._command = noted
sys.argv = ["edgekit", "check", "model.onnx", "--target", "ios18"]
sys.exit(program.run())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines()[-1] == "imported coremltools"


@needs_torch
def test_a_program_converts_models_of_pytorch_as_before() -> None:
    script = "import edgekit_mil.core.mil, coremltools._deps; print(coremltools._deps._HAS_TORCH)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
