"""What ``--json`` prints is what the command's page says."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

RunEdgeKit = Callable[..., Any]

PAGES = Path(__file__).parents[3] / "docs" / "commands"


@pytest.fixture
def model(onnx_file: Callable[..., Path]) -> Path:
    return onnx_file("g (float[N, 4] x) => (float[N, 4] y) { a = Relu (x) y = Neg (a) }")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("inspect", ()),
        ("fix", ("--dim", "N=1", "-o", "{folder}/fixed.onnx")),
        ("extract", ("--outputs", "a", "-o", "{folder}/part.onnx")),
        ("check", ("--target", "onnxruntime")),
    ],
)
def test_the_page_names_every_key_of_a_model(
    edgekit: RunEdgeKit, model: Path, tmp_path: Path, name: str, options: Sequence[str]
) -> None:
    finished = edgekit(name, model, *(option.format(folder=tmp_path) for option in options), "--json")
    assert set(finished.json) <= named(name)


@pytest.mark.parametrize(("name", "options"), [("verify", ()), ("bench", ()), ("report", ("-o", "{folder}/r.html"))])
def test_the_page_names_every_key_of_a_bundle(
    edgekit: RunEdgeKit, packaged_digits: Path, tmp_path: Path, name: str, options: Sequence[str]
) -> None:
    finished = edgekit(name, packaged_digits, *(option.format(folder=tmp_path) for option in options), "--json")
    assert set(finished.json) <= named(name)


def test_the_page_names_every_key_of_the_targets(edgekit: RunEdgeKit) -> None:
    record = edgekit("targets", "--json").json
    keys = set(record) | set(record["targets"][0])
    assert keys <= named("targets")


def named(command: str) -> set[str]:
    """What the paragraph of a command's page about ``--json`` names."""
    text = (PAGES / f"{command}.md").read_text(encoding="utf-8").rpartition("\nWith `--json`: ")[2]
    return set(re.findall(r"`([a-z0-9_]+)`", text.partition("\n\n")[0]))
