from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "operator_tables.py"
DEVICES = ROOT / "targets" / "edgekit_onnxruntime" / "devices"

WEB = """| Operator | Opset | Comments |
|:--------:|:-------------:|-----|
| Abs | ai.onnx(6-12,13+) |  |
| AveragePool | ai.onnx(7-9,10,11-18,19+); com.ms.internal.nhwc(7-9,10,11-18,19+) | need perf optimization |
| Conv | ai.onnx(1-10,11+) | need perf optimization; conv3d is not supported |
| QuickGelu | com.microsoft(1+) |  |
| Reshape | ai.onnx(5-12,13,14+) | no GPU kernel |
"""


def written(folder: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), "--out", str(folder), *options]
    subprocess.run(command, capture_output=True, text=True, check=True)
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.json")}


@pytest.mark.slow
def test_the_tables_of_mobile_devices_are_what_the_script_makes_of_the_installed_wheel(tmp_path: Path) -> None:
    for name, made in written(tmp_path).items():
        committed = json.loads((DEVICES / f"{name}.json").read_text(encoding="utf-8"))
        if committed["version"] != f"onnxruntime {version('onnxruntime')}":
            pytest.skip(f"the table is of {committed['version']}")
        assert {**made, "date": committed["date"]} == committed


@pytest.mark.slow
def test_the_web_table_is_read_from_the_packages_documentation(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "docs").mkdir(parents=True)
    (package / "package.json").write_text('{"version": "9.8.7"}')
    (package / "docs" / "webgpu-operators.md").write_text(WEB)
    device = written(tmp_path, "--web", str(package))["web-webgpu"]
    assert device["version"] == "onnxruntime-web 9.8.7"
    assert device["operators"] == {
        "Abs": {"opsets": [[6, 12], [13, None]]},
        "AveragePool": {"opsets": [[7, 9], [10, 10], [11, 18], [19, None]]},
        "Conv": {"opsets": [[1, 10], [11, None]], "ranks": [3, 4]},
        "Reshape": {"opsets": [[5, 12], [13, 13], [14, None]], "note": "no GPU kernel"},
        "com.microsoft.QuickGelu": {"opsets": [[1, None]]},
    }
