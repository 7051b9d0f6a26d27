from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

ROOT = Path(__file__).parents[2]
TARGETS = ["ios18", "intel-cpu", "android-qnn", "web", "onnxruntime"]


@pytest.mark.slow
def test_the_page_tells_every_model_on_every_target(tmp_path: Path) -> None:
    graph = "g (float[N, 3, 3] x) => (float[N] y) { a = Exp (x) [determinant] y = Det (a) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}'), tmp_path / "tiny.onnx")
    entries = [{"name": "tiny", "does": "nothing much", "package": "none", "shapes": {"x": [1, 3, 3]}}]
    (tmp_path / "list.json").write_text(json.dumps(entries))
    page = tmp_path / "page.md"
    command = [sys.executable, str(ROOT / "benchmarks" / "support.py"), "--models", str(tmp_path)]
    options = ["--list", str(tmp_path / "list.json"), "--out", str(page)]
    subprocess.run([*command, *options], check=True, capture_output=True)
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^### (\S+)$", text, re.MULTILINE) == TARGETS
    (row,) = re.findall(r"^\| tiny \| 2 \|(.*)\|$", text, re.MULTILINE)
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[1].startswith("unsupported")  # OpenVINO has no determinant
    assert cells[4] == "good: 100% in 1"
    assert re.search(
        r"^\| tiny \| Det \| 1 \| unsupported \| OpenVINO's ONNX frontend has no conversion", text, re.MULTILINE
    )


def test_the_committed_page_has_28_models_on_all_targets() -> None:
    text = (ROOT / "docs" / "operator-support.md").read_text(encoding="utf-8")
    overview = text.partition("## Overview")[2].partition("## What is missing")[0]
    head, _, *rows = [line for line in overview.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in head.strip("|").split("|")] == ["model", "nodes", *TARGETS]
    assert len(rows) == 28
    assert all(cell.strip() for row in rows for cell in row.strip("|").split("|"))
