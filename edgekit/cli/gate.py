"""``edgekit gate``: whether bundles keep their budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgekit.cli._bundle_options import (
    ConfigOption,
    DeviceTimeoutOption,
    InstructionSetsOption,
    OriginalOption,
    ResultsOption,
    SignersOption,
)
from edgekit.cli._bundle_view import show_table
from edgekit.cli._command import command
from edgekit.cli._completion import device_schemes
from edgekit.cli._console import Console
from edgekit.cli._errors import InterruptedByUserError
from edgekit.cli._github import append_summary, error_in_actions, in_actions, require_appendable
from edgekit.cli._junit import JUnitOption, error_in_junit, write_junit

if TYPE_CHECKING:
    from edgekit.quality_gate.bundles import Judged
    from edgekit.quality_gate.gating import GateResult
    from edgekit.quality_gate.verdict import Verdict

BundlesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="BUNDLE",
        help="Bundles, or names of bundles that the project declares; by default all that it declares.",
        show_default=False,
    ),
]
OutputDirOption = Annotated[
    Path | None,
    typer.Option(
        "--output-dir",
        metavar="DIR",
        help="The folder of the declared bundles, each under its name; by default where the project file says.",
        show_default=False,
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
        help=(
            "An earlier bundle to compare with, measured alternately with the new one; or a folder that holds an "
            "earlier bundle for each, by its name."
        ),
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
GateDeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        autocompletion=device_schemes,
        metavar="DEVICE",
        help="Where each bundle has to compute its golden outputs, and where budgets in milliseconds and bytes of "
        "memory are measured: {devices}. By default as the project file says, or this machine.",
        show_default=False,
    ),
]
SamplesOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Samples on which each bundle is executed, here or on the device named by --device, and compared with "
        "the outputs recorded with them or the original's; labels are judged by the budget `accuracy`.",
        show_default=False,
    ),
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


@dataclass(frozen=True)
class ComparisonOptions:
    """The options of what bundles are compared with."""

    baseline: BaselineOption = None
    against: AgainstOption = None
    update: UpdateOption = False


@dataclass(frozen=True)
class DeviceOptions:
    """The options of the device, or of the results that it wrote."""

    device: GateDeviceOption = None
    device_timeout: DeviceTimeoutOption = None
    results: ResultsOption = None


@dataclass(frozen=True)
class ReportOptions:
    """The options of what is written for CI, in addition to the table."""

    junit: JUnitOption = None
    summary: SummaryOption = None
    github: GitHubOption = False

    def write(self, console: Console, result: GateResult) -> None:
        """Writes the requested files; in GitHub Actions, always annotations and the summary.

        Raises:
            InputError: A file cannot be written.
        """
        if self.junit is not None:
            write_junit(self.junit, result.junit())
        append_summary(self.summary, result.markdown())
        if self.github or in_actions():
            for line in result.annotations():
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
    output_dir: OutputDirOption = None,
    comparison: ComparisonOptions,
    model: OriginalOption = None,
    time_limit: TimeLimitOption = None,
    measured_on: DeviceOptions,
    isa: InstructionSetsOption = None,
    data: SamplesOption = None,
    signers: SignersOption = None,
    reports: ReportOptions,
) -> None:
    """Judge bundles by their budgets.

    The exit code is 1 if a bundle breaks its budget.

    The budget is the table [bundle.budget] of the project file, or [budget] for all bundles: size, download, accuracy,
    accuracy_drop, sqnr_db, accelerator_share, partitions and latency_ratio; on --device latency_ms, first_run_ms,
    load_ms and memory; and against an earlier build size_growth, accuracy_fall, latency_growth and agreement_db. The
    ratios of the latency to that of the original model and of the earlier bundle are measured in turns, until it is
    clear on which side of the limit they are. A budget that was not measured does not pass.

    With --device each bundle also has to compute its golden outputs on that device, with --isa with each of the
    instruction sets. With --data each bundle is executed on samples; if they hold recorded outputs, an error says
    whether the export or the target is to blame.
    """
    from edgekit import api
    from edgekit.quality_gate.declaration import DECLARATION
    from edgekit.quality_gate.gating import InterruptedGateError

    try:
        with error_in_junit(reports.junit, "edgekit gate"):
            require_appendable(reports.summary)
            with error_in_actions(console, "EdgeKit gate", reports.summary, annotate=reports.github):
                result = api.gate(
                    *bundle,
                    config=config,
                    output_dir=output_dir,
                    baseline=comparison.baseline,
                    against=comparison.against,
                    update=comparison.update,
                    model=model,
                    time_limit=time_limit,
                    device=measured_on.device,
                    device_timeout=measured_on.device_timeout,
                    results=measured_on.results,
                    isa=isa,
                    data=data,
                    signers=signers,
                    progress=console.progress,
                )
    except InterruptedGateError as interrupt:
        reports.write(console, interrupt.result)
        for one in interrupt.result.bundles[: interrupt.judged]:
            if not one.passed:
                console.error(_failure(one))
        raise InterruptedByUserError(
            str(interrupt) or "interrupted", hint="nothing was left behind", done=interrupt.result.as_record()
        ) from None
    if result.updated:
        console.note("\n".join([f"wrote {result.baseline}: {', '.join(result.updated)}", *result.changes]))
    try:
        reports.write(console, result)
    finally:  # the table is printed even if a file for CI cannot be written; the files come first
        console.show(result.as_record(), lambda out: show_table(*_table(result.bundles), out, untitled="result"))
    for one in result.bundles:
        for verdict in one.doubtful:
            what = "differs" if verdict.budget == DECLARATION else "is not clear"
            console.warn(f"{one.path}: {verdict.budget} {what}: {verdict.found}")
    if not result.passed:
        console.fail("\nerror: ".join(map(_failure, result.failed)), result.exit_code)


def _table(judged: Sequence[Judged]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and rows of the table; without the column of names if there is only one bundle."""
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
    if verdict.outcome is Outcome.NOT_COMPARED:
        return "not compared"
    return "FAILED" if judged.fails(verdict) else "ok"


def _failure(judged: Judged) -> str:
    if judged.error is not None:
        return str(judged.error)
    broken = "; ".join(f"{verdict.budget} {verdict.found} ({verdict.limit})" for verdict in judged.failed)
    return f"{judged.path}: breaks its budget: {broken}"
