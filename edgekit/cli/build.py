"""``edgekit build``: every bundle that the project file declares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgekit.cli._bundle_options import ConfigOption, nearest_config
from edgekit.cli._bundle_view import show_table
from edgekit.cli._command import command
from edgekit.cli._console import Console

if TYPE_CHECKING:
    from edgekit.project import ProjectBundle

ForceOption = Annotated[bool, typer.Option("--force", help="Build bundles that are up to date as well.")]


@command("edgekit build", "edgekit build --config models/edgekit.toml --json")
def build(console: Console, *, config: ConfigOption = None, force: ForceOption = False) -> None:
    """Build every bundle that the project file declares.

    A bundle is skipped when model, data, options and the versions of EdgeKit and its runtimes are what they were. The
    first one that fails ends the command; those before it are there.
    """
    from edgekit.config import read_config
    from edgekit.project import build_project
    from edgekit.report.summary import summary_record

    built = build_project(read_config(nearest_config(config)), console.progress, force=force)
    record = {
        "bundles": [
            {"bundle": str(one.bundle.path), "skipped": one.skipped, **summary_record(one.bundle.manifest)}
            for one in built
        ]
    }
    console.show(record, lambda out: show_table(_HEAD, map(_row, built), out))


_HEAD = ("bundle", "target", "", "built as", "size", "accuracy", "worst output", "latency")


def _row(one: ProjectBundle) -> tuple[str, ...]:
    from edgekit.report.summary import built_as, bytes_text, decibel_text, worst_db

    manifest = one.bundle.manifest
    task, worst = manifest["accuracy"]["task"], worst_db(manifest["accuracy"])
    latency = manifest["latency"]
    return (
        _short(one.bundle.path),
        manifest["target"]["profile"],
        "up to date" if one.skipped else "built",
        built_as(manifest),
        bytes_text(manifest["size"]["bytes"]),
        "" if task is None else f"{task['built']:.2%}",
        "" if worst is None else decibel_text(worst),
        f"{latency['built']['p50_ms']:.3g} ms" + ("" if latency["of_device"] else " (stand-in)"),
    )


def _short(path: Path) -> str:
    """The path from here where it lies below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
