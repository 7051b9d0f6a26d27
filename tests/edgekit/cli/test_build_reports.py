"""What `edgekit build` writes for CI: JUnit XML and annotations."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgekit.cli import main
from edgekit.processes.workers import Failure

from .full_disk import FullDisk

RunEdgeKit = Callable[..., Any]
WriteProject = Callable[[str], None]


def test_what_had_ended_before_an_interruption_is_told(
    edgekit: RunEdgeKit,
    project: WriteProject,
    onnx_file: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that is cancelled after an hour uploads its reports: they say what failed, and why."""
    bundle = '[[bundle]]\nname = "{0}"\nmodel = "{1}"\ntarget = "onnxruntime"\ndims = {{ N = 1 }}\n'
    names = [("gone", "gone.onnx"), ("unfit", "model.onnx"), ("slow", "model.onnx"), ("waiting", "model.onnx")]
    onnx_file("f (float[N, 3] x) => (float[N, 3] y) { y = Exp(x) }")
    project("".join(bundle.format(*one) for one in names))

    def interrupted(*_arguments: Any, ended: Callable[..., Any], **_options: Any) -> None:
        ended("unfit", Failure("x: does not fit\nhint: try M", {"type": "InputError"}, 2), 1.5)
        raise KeyboardInterrupt("ended by SIGTERM")

    monkeypatch.setattr("edgekit.project.building.run_jobs", interrupted)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    finished = edgekit("build", "--quiet", "--junit", "build.xml")
    assert finished.code == 143
    assert finished.err.endswith(
        "error: unfit: x: does not fit\nhint: try M\nerror: ended by SIGTERM\n"
        "hint: the bundles that were finished are there; run it again to go on\n"
    )
    assert f"\nerror: gone: {tmp_path}/gone.onnx: " in finished.err
    assert "error: slow: " not in finished.err
    cases = ElementTree.parse(tmp_path / "build.xml").getroot().iter("testcase")
    told = {case.get("name"): [each.text for each in case.iter("failure")] for case in cases}
    assert told["unfit"] == ["x: does not fit\nhint: try M"]
    assert told["slow"] == told["waiting"] == ["was not built\nfound: ended by SIGTERM\nhint: run it again to go on"]
    assert "::error file=edgekit.toml,line=7,title=unfit%3A build::x: does not fit%0Ahint: try M" in finished.err
    record = json.loads(edgekit("build", "--json").out)
    assert record["error"]["message"] == "ended by SIGTERM"
    errors = {one["name"]: one["error"] for one in record["bundles"]}
    assert errors["unfit"]["exit_code"] == 2
    assert errors["slow"]["message"] == errors["waiting"]["message"] == "was not built"


def test_junit_xml_is_written_although_nobody_reads_the_table(
    project: WriteProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reader of a pipe may leave, and a log's disk may be full: an older report says what became of another run."""
    project('[[bundle]]\nname = "gone"\nmodel = "gone.onnx"\ntarget = "onnxruntime"\n')
    report = tmp_path / "build.xml"
    report.write_text("<testsuites/>")
    monkeypatch.setattr("sys.stdout", FullDisk())
    assert main(["build", "--junit", str(report), "--quiet"]) == 2
    assert "no space left on device" in capsys.readouterr().err
    assert ElementTree.parse(report).getroot().get("failures") == "1"
