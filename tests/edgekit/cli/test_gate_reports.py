"""What `edgekit gate` writes for CI: JUnit XML, a summary, annotations."""

from __future__ import annotations

import json
import os
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgekit.cli import main
from edgekit.quality_gate.bundles import Candidate, Gate, Judged

from .full_disk import FullDisk
from .gate_outcomes import size_of

RunEdgeKit = Callable[..., Any]
WriteProject = Callable[[str], None]


def test_for_ci(edgekit: RunEdgeKit, bundle: Path, project: WriteProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project(
        '[[bundle]]\nname = "digits"\nmodel = "m.onnx"\ntarget = "ort"\noutput = "digits"\n'
        'budget = { size = "10 kB" }\n'
    )
    folder = bundle.parent
    (folder / "summary.md").write_text("before\n")
    finished = edgekit("gate", "--json", "--summary", "new/step.md")
    assert finished.code == 1
    assert (folder / "new" / "step.md").read_text().startswith("## ❌ EdgeKit gate")
    finished = edgekit("gate", "--junit", "out/gate.xml", "--summary", "summary.md", "--json")
    assert finished.code == 1
    assert ElementTree.parse(folder / "out" / "gate.xml").getroot().get("failures") == "1"
    assert (folder / "summary.md").read_text().startswith("before\n## ❌ EdgeKit gate: 1 of 1 bundle failed\n")
    place = "file=edgekit.toml,line=2,title=digits%3A size"
    annotation = f"::error {place}::broken: {size_of(bundle)}; wanted at most 10 kB"
    assert annotation not in finished.err.splitlines()
    assert annotation in edgekit("gate", "--github", "--json").err.splitlines()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "step.md"))
    assert annotation in edgekit("gate", "-q").err.splitlines()
    assert (folder / "step.md").read_text().startswith("## ❌ EdgeKit gate")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder))
    finished = edgekit("gate", "-q")
    assert finished.code == 2
    assert f"error: {folder}: cannot be written: is a directory" in finished.err


def test_an_error_that_comes_before_any_bundle_is_told_to_github(
    edgekit: RunEdgeKit, project: WriteProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    project('[[bundle]]\nname = "x"\nmodel = "m.onnx"\ntarget = "ort"\n[gate]\nbaseline = "base.json"\n')
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    finished = edgekit("gate", "-q")
    assert finished.code == 2
    file = f"{tmp_path}/base.json"
    hint = f"hint: `edgekit gate --baseline {file} --update` writes one"
    assert f"::error title=EdgeKit gate::{file}: there is no baseline%0A{hint}\n" in finished.err
    assert (tmp_path / "step.md").read_text() == (
        f"## ❌ EdgeKit gate ended with an error\n\n    {file}: there is no baseline\n    {hint}\n"
    )
    project("nonsense")
    finished = edgekit("build", "-q")
    assert finished.code == 2
    assert f"::error title=EdgeKit build::{tmp_path}/edgekit.toml: " in finished.err
    assert "\n## ❌ EdgeKit build ended with an error\n\n    " in (tmp_path / "step.md").read_text()

    monkeypatch.delenv("GITHUB_ACTIONS")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    finished = edgekit("gate", "-q", "--summary", "own.md", "--github")
    assert "::error title=EdgeKit gate::" in finished.err
    assert (tmp_path / "own.md").read_text().startswith("## ❌ EdgeKit gate ended with an error\n")


def test_reports_are_written_although_nobody_reads_the_table(
    bundle: Path, project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of a pipe may leave, and a log's disk may be full: an older report says what became of another run."""
    project('[budget]\nsize = "10 kB"\n')
    folder = bundle.parent
    (folder / "gate.xml").write_text("<testsuites/>")
    monkeypatch.setattr("sys.stdout", FullDisk())
    code = main(["gate", str(bundle), "--junit", "gate.xml", "--summary", "gate.md", "--quiet"])
    assert code == 2
    assert ElementTree.parse(folder / "gate.xml").getroot().get("failures") == "1"
    assert (folder / "gate.md").read_text().startswith("## ❌ EdgeKit gate: 1 of 1 bundle failed\n")


def test_verdicts_before_an_interruption_are_told(
    edgekit: RunEdgeKit, bundle: Path, project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate of many bundles takes minutes; the job that is cancelled then uploads its reports."""
    shutil.copytree(bundle, bundle.parent / "other")
    entry = '[[bundle]]\nname = "{0}"\nmodel = "m.onnx"\ntarget = "ort"\noutput = "{0}"\n'
    project(entry.format("digits") + entry.format("other") + '[budget]\nsize = "10 kB"\n')
    judge = Gate.judge

    def interrupted(gate: Gate, candidate: Candidate) -> Judged:
        if candidate.name == "other":
            raise KeyboardInterrupt("ended by SIGTERM")
        return judge(gate, candidate)

    monkeypatch.setattr(Gate, "judge", interrupted)
    finished = edgekit("gate", "--quiet", "--junit", "gate.xml", "--summary", "gate.md", "--baseline", "b", "--update")
    assert finished.code == 143
    size = size_of(bundle)
    assert finished.err == (
        f"error: {bundle}: breaks its budget: size {size} (at most 10 kB)\n"
        "error: ended by SIGTERM\nhint: nothing was left behind\n"
    )
    suites = ElementTree.parse(bundle.parent / "gate.xml").getroot()
    assert [(suite.get("name"), suite.get("failures"), suite.get("errors")) for suite in suites] == [
        ("digits", "1", "0"),
        ("other", "0", "1"),
    ]
    (error,) = suites.iter("error")
    assert error.text == f"{bundle.parent / 'other'}: was not judged\nfound: ended by SIGTERM"
    assert (bundle.parent / "gate.md").read_text().startswith("## ❌ EdgeKit gate: 2 of 2 bundles failed\n")
    assert not (bundle.parent / "b").exists()
    told = json.loads(edgekit("gate", "--json").out)
    assert told["error"]["message"] == "ended by SIGTERM"
    judged, left = told["bundles"]
    assert judged["verdicts"][0]["found"] == size
    assert left["error"]["message"] == "was not judged"


def test_a_summary_of_a_name_that_is_no_utf8(edgekit: RunEdgeKit, bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"b\xff")
    shutil.copytree(bundle, folder)
    finished = edgekit("gate", folder, "--summary", tmp_path / "gate.md", "-q")
    assert finished.code == 2
    assert "is not text in UTF-8" in (tmp_path / "gate.md").read_text(encoding="utf-8")
    assert "b\\udcff" in (tmp_path / "gate.md").read_text(encoding="utf-8")
