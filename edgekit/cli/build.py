"""``edgekit build``: every bundle that the project file declares."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgekit.cli._bundle_options import ConfigOption
from edgekit.cli._bundle_view import show_table
from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._errors import TRACEBACK_VARIABLE, InterruptedByUserError
from edgekit.cli._github import append_summary, error_in_actions, in_actions
from edgekit.cli._junit import JUnitOption, error_in_junit, write_junit

if TYPE_CHECKING:
    from edgekit.project.building import ProjectBundle
    from edgekit.terminal.board import Board

NamesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME",
        help="The bundles to build, as the project file calls them; all by default.",
        show_default=False,
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Build bundles that are up to date as well.")]
OutputDirOption = Annotated[
    Path | None,
    typer.Option(
        "--output-dir",
        metavar="DIR",
        help="Put the bundles into this folder, each under its name; by default where the project file says.",
        show_default=False,
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        metavar="N",
        help="How many bundles are built at a time; by default one for every two processors.",
        min=1,
        show_default=False,
    ),
]


@command(
    "edgekit build",
    "edgekit build --config models/edgekit.toml --jobs 4 --json",
    "edgekit build --junit build.xml",
)
def build(
    console: Console,
    bundle: NamesArgument = [],  # noqa: B006 - Typer wants the default itself, and does not change it
    *,
    config: ConfigOption = None,
    output_dir: OutputDirOption = None,
    jobs: JobsOption = None,
    force: ForceOption = False,
    junit: JUnitOption = None,
) -> None:
    """Build the bundles that the project file declares, all or some.

    Each is built in a process of its own. A bundle is skipped when model, data, options and the versions of EdgeKit and
    its runtimes are what they were, so that a build that was interrupted goes on where it was. One that fails does not
    end the others; the exit code is that of the worst. In GitHub Actions those that fail are remarks on the project
    file.
    """
    from edgekit import api
    from edgekit.project.building import InterruptedBuildError

    try:
        with error_in_junit(junit, "edgekit build"), error_in_actions(console, "EdgeKit build"):
            results = api.build(
                config, bundles=bundle, output_dir=output_dir, jobs=jobs, force=force, board=_board(console)
            )
    except KeyboardInterrupt as interrupt:
        done = {}
        if isinstance(interrupt, InterruptedBuildError):
            done = _record(interrupt.results)
            _write_reports(console, interrupt.results, junit)
            _tell_failures(console, [one for one in interrupt.results if one.declared.name in interrupt.ended])
        raise InterruptedByUserError(
            str(interrupt) or "interrupted",
            hint="the bundles that were finished are there; run it again to go on",
            done=done,
        ) from None
    try:
        _write_reports(console, results, junit)
    finally:  # the table is printed even if a file for CI cannot be written; the files come first
        console.show(_record(results), lambda out: show_table(_HEAD, map(_row, results), out, untitled="result"))
    exit_code = _tell_failures(console, results)
    if exit_code:
        raise typer.Exit(exit_code)


def _record(results: Sequence[ProjectBundle]) -> dict[str, Any]:
    return {"bundles": [one.as_record() for one in results]}


def _tell_failures(console: Console, results: Sequence[ProjectBundle]) -> int:
    """Prints why bundles were not built; returns the largest exit code, or 0 if all were built."""
    failures = {one.declared.name: one.failure for one in results if one.failure is not None}
    if os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0"):
        sys.stderr.writelines(failure.trace for failure in failures.values())
    for name, failure in failures.items():
        console.error(f"{name}: {failure.text}")
    return max((failure.exit_code for failure in failures.values()), default=0)


def _write_reports(console: Console, results: Sequence[ProjectBundle], junit: Path | None) -> None:
    """Writes JUnit XML if requested; in GitHub Actions, annotations of the project file and a part of the summary.

    Raises:
        InputError: A file cannot be written.
    """
    from edgekit.project.junit import build_junit
    from edgekit.project.remarks import build_annotations, build_summary

    if junit is not None:
        write_junit(junit, build_junit(results))
    if not in_actions():
        return
    for line in build_annotations(results, results[0].declared.file):
        console.say(line)
    append_summary(None, build_summary(results))


_HEAD = ("bundle", "target", "", "built as", "size", "accuracy", "worst output", "latency")


def _board(console: Console) -> Board:
    from edgekit.terminal.board import Board, board_on

    return Board() if console.as_json else board_on(sys.stderr, quiet=console.quiet)


def _of_time(latency: Mapping[str, Any]) -> str:
    """The remark on a latency that is a stand-in's or unsteady; empty for others."""
    from edgekit.reporting.summary import unsteady_ratio

    if not latency["of_device"]:
        return " (stand-in)"
    return "" if unsteady_ratio(latency) is None else " (unsteady)"


def _row(one: ProjectBundle) -> tuple[str, ...]:
    from edgekit.reporting.accuracy_texts import accuracy_text, worst_db
    from edgekit.reporting.summary import built_as
    from edgekit.units import bytes_text, decibel_text, time_text

    if one.bundle is None:
        return (one.declared.name, one.declared.target, "FAILED", *[""] * (len(_HEAD) - 3))
    manifest = one.bundle.manifest
    worst = worst_db(manifest["accuracy"])
    latency = manifest["latency"]
    return (
        one.declared.name,
        manifest["target"]["profile"],
        "up to date" if one.skipped else "built",
        built_as(manifest),
        bytes_text(manifest["size"]["bytes"]),
        accuracy_text(manifest["accuracy"]),
        "" if worst is None else decibel_text(worst),
        time_text(latency["built"]["p50_ms"]) + _of_time(latency),
    )
