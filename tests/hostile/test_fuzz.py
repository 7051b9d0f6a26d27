"""Tests of the fuzzer: it reproduces its cases, and it detects faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases import BUNDLES, Case, digests, draw
from judge import Ending, _Changed, judge


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    manifest = '{"files": [], "name": "net", "fingerprint": "0", "golden": {"samples": 1}}'
    for name in BUNDLES:
        folder = tmp_path / "bundles" / name
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(manifest)
        (folder / "measurements.json").write_text('{"values": {"/latency": {"a": 1}}}')
        (folder / "graph.json").write_text('{"nodes": [], "inputs": [0]}')
        (folder / "report.md").write_text("# net")
    return tmp_path / "bundles"


def test_a_seed_and_a_number_repeat_a_case(tmp_path: Path, bundles: Path) -> None:
    for number in range(60):
        drawn = []
        for turn in range(2):
            folder = tmp_path / f"{number}-{turn}"
            folder.mkdir()
            drawn.append(draw(7, number, folder, bundles))
        assert drawn[0].arguments == drawn[1].arguments
        assert drawn[0].what == drawn[1].what
        # A ZIP archive contains the time at which it was written.
        assert [name for name in drawn[0].inputs if not name.endswith(".npz")] == [
            name for name in drawn[1].inputs if not name.endswith(".npz")
        ]


@pytest.mark.parametrize(
    ("status", "memory", "stdout", "stderr", "left", "fault"),
    [
        (2, 1, "{}", "error: x\n", None, None),
        (3, 1, "{}", "", None, "exit 3"),
        (-6, 1, "{}", "", None, "signal SIGABRT"),
        (134, 1, "{}", "", None, "signal, exit 134"),
        (2, 4 << 30, "{}", "", None, "memory 4096 MiB"),
        (2, 1, "{}", "Traceback (most recent call last):\n", None, "traceback"),
        (2, 1, "{}", "\x1b[31mred", None, "control characters on stderr"),
        (2, 1, "{}", "a\n::error::b", None, "command for a CI on stderr"),
        (2, 1, '{"a": NaN}', "", None, "json: NaN is not JSON"),
        (2, 1, "", "", None, "json: Expecting value"),
        (2, 1, "{}", "", ".edgekit-1", "left: .edgekit-1"),
        (0, 1, "{}", "", "notes", "left: notes"),
        (2, 1, "{}", "", "m.onnx", "input changed: m.onnx"),
    ],
)
def test_the_judge_sees(
    tmp_path: Path, status: int, memory: int, stdout: str, stderr: str, left: str | None, fault: str | None
) -> None:
    (tmp_path / "tmp").mkdir()
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "m.onnx").write_text("a model")
    case = Case("inspect", ("inspect", "m.onnx", "--json"), "", inputs=digests(folder))
    (folder / "stdout").write_text(stdout)
    (folder / "stderr").write_text(stderr)
    if left:
        (folder / left).write_text("left")
    found = judge(case, Ending(status, 1.0, memory, 0), folder, tmp_path / "tmp", tmp_path / "none", 1 << 30).faults
    assert (found == []) if fault is None else any(one.startswith(fault) for one in found)


@pytest.mark.parametrize(
    ("told", "changed", "is_flawed"),
    [(1 / 24, 3, False), (1 / 24, 4, True), (0.0, 0, False), (0.0, 1, True), (0.06, 0, True)],
)
def test_golden_samples_differ_by_no_more_than_the_manifest_says_of_all(
    told: float, changed: int, is_flawed: bool
) -> None:
    manifest = {
        "accuracy": {"outputs": [{"name": "kept", "mismatch": told}], "data": {"samples": 4}},
        "golden": {"samples": 3},
    }
    found = _Changed()
    found.add("kept", np.arange(54) < changed)
    assert bool(found.flaw_of_manifest(manifest)) == is_flawed
