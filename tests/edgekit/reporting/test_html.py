"""The report as a document: what its policy lets run, and what names of models may put into it."""

from __future__ import annotations

import base64
import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from edgekit.bundle import read_bundle
from edgekit.reporting.html import html_report

STEERS = "\x1b]0;title\x07 \u202egnp.exe \u2066 \u200f </script><img src=x onerror=alert(1)>"


class Document(HTMLParser):
    """What a browser would take from a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.policy: dict[str, list[str]] = {}
        self.scripts: list[str] = []
        self.data: list[str] = []
        self.tags: set[str] = set()
        self._in: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self._in = tag
        if given.get("http-equiv") == "Content-Security-Policy":
            parts = [part.split() for part in str(given["content"]).split(";")]
            self.policy = {name: sources for name, *sources in parts}
        if tag == "script":
            (self.data if "type" in given else self.scripts).append("")
            self._in = "data" if "type" in given else "script"

    def handle_endtag(self, tag: str) -> None:
        self._in = None

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.scripts[-1] += data
        if self._in == "data":
            self.data[-1] += data


def test_only_the_reports_own_scripts_may_run(packaged_digits: Path) -> None:
    page = Document(html_report(read_bundle(packaged_digits)))
    sums = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in page.scripts]
    assert len(sums) == 2
    assert page.policy["script-src"] == [f"'sha256-{each}'" for each in sums]
    assert [page.policy[name] for name in ("default-src", "base-uri", "form-action")] == [["'none'"]] * 3


def test_names_neither_turn_the_writing_around_nor_become_elements(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    graph: dict[str, Any] = json.loads((bundle / "graph.json").read_text())
    manifest["outputs"][0]["name"] = manifest["golden"]["outputs"][0]["name"] = STEERS
    manifest["labels"] = [STEERS] * 10
    graph["nodes"][0]["name"] = STEERS
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    (bundle / "graph.json").write_text(json.dumps(graph))
    text = html_report(read_bundle(bundle))
    page = Document(text)
    assert "img" not in page.tags
    assert not set("\x1b\x07\u202e\u2066\u200f") & set(text)
    shown = "\\x1b]0;title\\x07 \\u202egnp.exe \\u2066 \\u200f"
    assert shown in text
    assert not any(set("\x1b\u202e") & set(str(json.loads(data))) for data in page.data)
