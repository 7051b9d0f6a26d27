"""``edgekit gate``: whether bundles keep their budgets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgekit.cli._bundle_options import ConfigOption, OriginalOption
from edgekit.cli._bundle_view import show_table
from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.errors import InputError

if TYPE_CHECKING:
    from edgekit.config import Config, GateSettings
    from edgekit.quality_gate.bundles import Candidate, Gate, Judged
    from edgekit.quality_gate.machine import Machine
    from edgekit.quality_gate.verdict import Verdict

BundlesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="BUNDLE", help="Bundles; by default every one that the project declares.", show_default=False
    ),
]
BaselineOption = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Figures of an earlier build to compare with; by default the one that the project file names.",
        show_default=False,
    ),
]
AgainstOption = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="PATH",
        help="An earlier bundle to compare with, measured in turns; or a folder that holds one for each, by its name.",
        show_default=False,
    ),
]
UpdateOption = Annotated[
    bool, typer.Option("--update", help="Write the bundles' figures to the baseline instead of comparing with it.")
]
TimeLimitOption = Annotated[
    float | None,
    typer.Option(
        "--time-limit", metavar="SECONDS", help="The most that one measurement may take; by default 60.", min=0.1
    ),
]
JUnitOption = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML as well.", show_default=False)
]
SummaryOption = Annotated[
    Path | None,
    typer.Option(
        "--summary",
        metavar="FILE",
        help="Append a summary in Markdown; by default to $GITHUB_STEP_SUMMARY where that is set.",
        show_default=False,
    ),
]
GitHubOption = Annotated[
    bool,
    typer.Option("--github", help="Print GitHub annotations on stderr; in GitHub Actions they always are."),
]

ACTIONS_VARIABLE = "GITHUB_ACTIONS"
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True)
class ComparisonOptions:
    """What bundles are compared to."""

    baseline: BaselineOption = None
    against: AgainstOption = None
    update: UpdateOption = False

    def baseline_file(self, settings: GateSettings) -> Path | None:
        """The file to compare with, or to write; None where there is none.

        Raises:
            InputError: Options are missing, or contradict each other.
        """
        if self.against is not None and self.baseline is not None:
            raise InputError(
                "are two things to compare with", subject="--against and --baseline", hint="give one of them"
            )
        file = self.baseline or (settings.baseline if self.against is None or self.update else None)
        if self.update and file is None:
            raise InputError("needs a file to write", subject="--update", hint="give --baseline FILE")
        return file


@dataclass(frozen=True)
class ReportOptions:
    """What is written beside the table, for CI."""

    junit: JUnitOption = None
    summary: SummaryOption = None
    github: GitHubOption = False

    def write(self, console: Console, judged: Sequence[Judged], machine: Machine, config: Path | None) -> None:
        """Writes what is asked for, and what GitHub Actions always wants.

        Raises:
            InputError: A file cannot be written.
        """
        from edgekit.atomic import atomic_file
        from edgekit.quality_gate.annotations import annotation_lines
        from edgekit.quality_gate.junit import junit_xml
        from edgekit.quality_gate.markdown import markdown_summary

        if self.junit is not None:
            with atomic_file(self.junit) as place:
                place.write_text(junit_xml(judged), encoding="utf-8")
        told = self.summary or os.environ.get(SUMMARY_VARIABLE)
        if told:
            try:
                with Path(told).open("a", encoding="utf-8") as stream:
                    stream.write(markdown_summary(judged, machine))
            except OSError as error:
                raise InputError(
                    f"cannot be written: {(error.strerror or str(error)).lower()}", subject=told
                ) from error
        if self.github or os.environ.get(ACTIONS_VARIABLE) == "true":
            for line in annotation_lines(judged, config):
                console.say(line)


@command(
    "edgekit gate",
    "edgekit gate bundles/model-intel-cpu --against main/bundles/model-intel-cpu",
    "edgekit gate --baseline baseline.json --junit gate.xml --json",
)
def gate(
    console: Console,
    bundle: BundlesArgument = [],  # noqa: B006 - Typer wants the default itself, and does not change it
    *,
    config: ConfigOption = None,
    comparison: ComparisonOptions,
    model: OriginalOption = None,
    time_limit: TimeLimitOption = None,
    reports: ReportOptions,
) -> None:
    """Judge bundles by their budgets.

    The exit code is 1 if one breaks its own.

    The budget is the table [bundle.budget] of the project file, or [budget] for all bundles: size, accuracy,
    accuracy_drop, sqnr_db, accelerator_share, partitions and latency_ratio, and against an earlier build size_growth,
    accuracy_fall and latency_growth. Latency is a ratio to the original model or to the earlier bundle, measured in
    turns until it is clear on which side of the limit it lies. What was not measured does not pass.
    """
    from edgekit.config import GateSettings, find_config, read_config
    from edgekit.quality_gate.baseline import read_baseline
    from edgekit.quality_gate.bundles import Gate, candidates_of
    from edgekit.quality_gate.machine import this_machine

    place = config or find_config(Path.cwd())
    project = None if place is None else read_config(place)
    settings = GateSettings() if project is None else project.gate
    file = comparison.baseline_file(settings)
    _require_bundles(bundle, project, model)
    candidates = candidates_of(project, bundle, model)
    judge = Gate(
        this_machine(),
        time_limit or settings.time_limit,
        settings.inconclusive,
        None if file is None or comparison.update else read_baseline(file),
        comparison.against,
        console.progress,
    )
    judged = judge.judge_all(candidates)
    if comparison.update and file is not None:
        _update(console, judge, file, candidates, judged)
    else:
        _require_verdicts(judged, bundle, place)
    record = {
        "passed": all(one.passed for one in judged),
        "machine": judge.machine.as_record(),
        "bundles": [one.as_record() for one in judged],
    }
    console.show(record, lambda out: show_table(*_table(judged), out))
    reports.write(console, judged, judge.machine, place)
    for one in judged:
        for verdict in one.doubtful:
            console.warn(f"{one.path}: {verdict.budget} is not clear: {verdict.found}")
    failed = [one for one in judged if not one.passed]
    if failed:
        console.fail("\nerror: ".join(map(_failure, failed)), max(one.exit_code for one in failed))


def _require_bundles(bundles: Sequence[Path], project: Config | None, model: Path | None) -> None:
    if not bundles and (project is None or not project.bundles):
        raise InputError(
            "there is nothing to judge",
            subject=None if project is None else project.path,
            expected="a BUNDLE, or a project file that declares some",
            found="no project file" if project is None else "no [[bundle]]",
        )
    if model is not None and len(bundles) != 1:
        raise InputError(
            "names the original of one bundle", subject="--model", expected="one BUNDLE", found=str(len(bundles))
        )


def _require_verdicts(judged: Sequence[Judged], bundles: Sequence[Path], place: Path | None) -> None:
    """Refuses to let pass what nothing was asked of."""
    if all(not one.verdicts and one.error is None for one in judged):
        raise InputError(
            "there is nothing to judge the bundle by" if len(bundles) == 1 else "there is nothing to judge by",
            subject=bundles[0] if len(bundles) == 1 else place,
            expected="a table [budget] in the project file, --baseline FILE or --against PATH",
            found="no project file" if place is None else f"no budget in {place}",
        )


def _update(
    console: Console, judge: Gate, file: Path, candidates: Sequence[Candidate], judged: Sequence[Judged]
) -> None:
    """Writes the figures of the bundles that pass."""
    from edgekit.quality_gate.baseline import read_baseline, write_baseline

    before = read_baseline(file) if file.exists() else {}
    passing = [(candidate, one.name) for candidate, one in zip(candidates, judged, strict=True) if one.passed]
    if passing:
        write_baseline(file, {name: judge.figures(candidate, before.get(name)) for candidate, name in passing})
        console.note(f"wrote {file}: {', '.join(name for _, name in passing)}")


def _table(judged: Sequence[Judged]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and rows; one bundle alone needs no column for its name."""
    head = ("bundle", "budget", "limit", "found", "")
    rows: list[tuple[str, ...]] = []
    for one in judged:
        lines = [(verdict.budget, verdict.limit, verdict.found, _word(one, verdict)) for verdict in one.verdicts]
        if one.error is not None:
            lines.append(("", "", one.error.message, "FAILED"))
        names = [one.name, *[""] * len(lines)]
        rows += [(name, *line) for name, line in zip(names, lines or [("", "", "no budget is set", "")], strict=False)]
    if len(judged) == 1:
        return head[1:], [row[1:] for row in rows]
    return head, rows


def _word(judged: Judged, verdict: Verdict) -> str:
    from edgekit.quality_gate.verdict import Outcome

    if verdict.outcome is Outcome.INCONCLUSIVE:
        return "FAILED: inconclusive" if judged.fails(verdict) else "inconclusive"
    return "FAILED" if judged.fails(verdict) else "ok"


def _failure(judged: Judged) -> str:
    if judged.error is not None:
        return str(judged.error)
    broken = "; ".join(f"{verdict.budget} {verdict.found}" for verdict in judged.failed)
    return f"{judged.path}: breaks its budget: {broken}"
