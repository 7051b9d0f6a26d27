"""``report.md``: what a bundle holds, for whoever opens its folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgekit.reporting import tables
from edgekit.reporting.summary import Manifest, summary_rows, warnings


def markdown_report(manifest: Manifest) -> str:
    """The page's text."""
    parts = [
        f"# {manifest['name']} for {manifest['target']['profile']}",
        _table(("", ""), summary_rows(manifest)),
        *[f"> **Note:** {text}" for text in warnings(manifest)],
        "## Inputs and outputs",
        _table(tables.FEATURE_HEAD, tables.feature_rows(manifest)),
        _preparation(manifest),
        "## Accuracy by output",
        _table(tables.ACCURACY_HEAD, tables.accuracy_rows(manifest)),
        tables.execution_text(manifest),
        "## Check it on the device",
        f"Run this in the bundle's folder; it needs nothing of EdgeKit:\n\n    {manifest['check']['command']}",
        "## How it was made",
        _table(tables.STAGE_HEAD, tables.stage_rows(manifest)),
        "## Files",
        _table(("file", "size"), ((path, size) for path, size, _ in tables.file_rows(manifest))),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _preparation(manifest: Manifest) -> str:
    declared = manifest["preprocessing"]
    if declared is None:
        return ""
    lines = "\n".join(f"- `{key}`: `{value}`" for key, value in declared.items())
    return f"## How the input is prepared\n\n{lines}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
