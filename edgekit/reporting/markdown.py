"""``report.md``: a description of a bundle for people who open its folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from edgekit.measurements import MEASUREMENTS
from edgekit.reporting import tables
from edgekit.reporting.app import app_texts, class_names
from edgekit.reporting.summary import Manifest, summary_rows, warnings
from edgekit.terminal.foreign_text import on_one_line

_LATENCY = "latency"
_MARKUP = re.compile(r"[<|`*\[\]\\]")
_ENTITIES = {"<": "&lt;"}


def markdown_report(manifest: Manifest) -> str:
    """The page's text."""
    parts = [
        f"# {escaped_markdown(manifest['name'])} for {escaped_markdown(manifest['target']['profile'])}",
        _table(("", ""), [row for row in summary_rows(manifest) if row[0] != _LATENCY]),
        f"Latencies are in `{MEASUREMENTS}`, the only file that differs when the same model is packaged again.",
        *[f"> **Note:** {escaped_markdown(text)}" for text in warnings(manifest)],
        "## Inputs and outputs",
        _table(tables.FEATURE_HEAD, tables.feature_rows(manifest)),
        "## In the app",
        *[escaped_markdown(text) for text in app_texts(manifest)],
        _classes(manifest),
        "## Accuracy by output",
        _table(tables.ACCURACY_HEAD, tables.accuracy_rows(manifest)),
        escaped_markdown(tables.execution_text(manifest)),
        "## Check it on the device",
        "In the bundle's folder; it needs the device's runtime, and nothing of EdgeKit:\n\n"
        + "\n".join(f"    {build['check']['command']}" for build in (manifest, *manifest.get("also", ()))),
        "## How it was made",
        _table(tables.STAGE_HEAD[:1], (row[:1] for row in tables.stage_rows(manifest))),
        "## Files",
        _table(("file", "size"), ((path, size) for path, size, _ in tables.file_rows(manifest))),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _classes(manifest: Manifest) -> str:
    rows = class_names(manifest)
    return _table(("class", "name"), rows) if rows else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    escaped = [[escaped_markdown(str(cell)) for cell in line] for line in (head, *rows)]
    lines = [escaped[0], ["---"] * len(head), *escaped[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped_markdown(text: str) -> str:
    """The text on one line, escaped so that Markdown shows it literally: no HTML, links, emphasis or ends of cells."""
    return _MARKUP.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), on_one_line(text))
