"""Reports bundles that were not built to GitHub Actions: annotations of the project file, a part of the summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from edgekit.project.building import ProjectBundle
from edgekit.quality_gate.annotations import place_of, workflow_command


def build_annotations(results: Sequence[ProjectBundle], config: Path) -> Iterator[str]:
    """A workflow command for each bundle that was not built, at the line that names it."""
    for one in results:
        if one.failure is not None:
            place = place_of(config, one.declared.declared_as)
            yield workflow_command("error", {**place, "title": f"{one.declared.name}: build"}, one.failure.text)


def build_summary(results: Sequence[ProjectBundle]) -> str:
    """Markdown about the bundles that were not built; empty if all were."""
    failed = [(one.declared.name, one.failure.text) for one in results if one.failure is not None]
    if not failed:
        return ""
    count = f"{len(failed)} of {len(results)} bundle{'s' if len(results) != 1 else ''}"
    parts = [f"## ❌ EdgeKit build: {count} failed"]
    parts += ["\n".join(f"    {line}" for line in f"{name}: {text}".splitlines()) for name, text in failed]
    return "\n\n".join(parts) + "\n"
