from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgekit import api

RunEdgeKit = Callable[..., Any]

PROMISED = {"ios16", "ios17", "ios18", "ios26", "intel-cpu", "intel-gpu", "intel-npu", "onnxruntime", "web"}


def test_targets_json(edgekit: RunEdgeKit) -> None:
    finished = edgekit("targets", "--json")
    assert (finished.code, finished.err) == (0, "")
    record = finished.json
    assert {profile["name"] for profile in record["targets"]} >= PROMISED
    assert record["broken"] == []
    for profile in record["targets"]:
        assert set(profile) == {
            "name", "aliases", "target", "description", "options", "build_options", "own_schemes", "runs_here"
        }  # fmt: skip
        assert profile["description"]
    schemes = {profile["name"]: profile["own_schemes"] for profile in record["targets"]}
    assert schemes["ios17"] == ["palette4", "palette6", "palette8"]
    assert schemes["onnxruntime"] == []
    assert api.targets().as_record() == record


def test_targets_for_people(edgekit: RunEdgeKit) -> None:
    finished = edgekit("targets")
    assert (finished.code, finished.err) == (0, "")
    rows = {line.split()[0]: line for line in finished.out.splitlines()[3:] if line.strip()}
    assert set(rows) >= PROMISED
    assert " yes " in rows["onnxruntime"]
    assert " no " in rows["ios18"]
    devices = finished.out.partition("--device takes ")[2].split()
    assert devices == edgekit("targets", "--json").json["devices"]
    assert {"local", "qemu:arm64"} < set(devices)


def test_a_table_fits_a_log_and_nothing_is_cut(edgekit: RunEdgeKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10000")
    words = edgekit("targets").out.split("--device")[0].split()
    monkeypatch.delenv("COLUMNS")
    in_a_log = edgekit("targets").out.split("--device")[0]
    assert max(map(len, in_a_log.splitlines())) == 100
    dashes = {"─"}
    assert sorted(word for word in in_a_log.split() if not set(word) <= dashes) == sorted(
        word for word in words if not set(word) <= dashes
    )
    monkeypatch.setenv("COLUMNS", "60")
    narrow = edgekit("targets").out.split("--device")[0]
    assert max(map(len, narrow.splitlines())) == 60
    assert "…" not in narrow


def test_a_line_of_text_stays_one_however_narrow(
    edgekit: RunEdgeKit, packaged_digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    output = tmp_path / "report.html"
    assert edgekit("report", packaged_digits, "-o", output).out == f"{output}\n"
