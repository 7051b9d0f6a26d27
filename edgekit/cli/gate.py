"""``edgekit gate``: whether a bundle keeps its budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgekit.cli._bundle_options import BundleArgument, ConfigOption
from edgekit.cli._bundle_view import show_table
from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.errors import InputError

BaselineOption = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="FILE", help="Figures of an earlier build to compare with.", show_default=False),
]
UpdateOption = Annotated[
    bool, typer.Option("--update", help="Write the bundle's figures to --baseline instead of comparing with it.")
]


@command("edgekit gate bundles/model-ios18", "edgekit gate bundles/model-ios18 --baseline baseline.json --json")
def gate(
    console: Console,
    bundle: BundleArgument,
    *,
    config: ConfigOption = None,
    baseline: BaselineOption = None,
    update: UpdateOption = False,
) -> None:
    """Judge a bundle by its budget; exit code 1 if it breaks it.

    The budget is the table [bundle.budget] of the project file, or [budget] for all bundles: size, accuracy,
    accuracy_drop, sqnr_db and latency_ratio, and against a baseline size_growth, accuracy_fall and latency_growth.
    Latency is judged as a ratio to the original model's, measured in turns when the bundle was packaged. What was not
    measured does not pass.
    """
    from edgekit.bundle import check_integrity, read_bundle
    from edgekit.config import Budget, find_config, read_config
    from edgekit.gate import Figures, judge, read_baseline, write_baseline

    opened = read_bundle(bundle)
    check_integrity(opened)
    if update and baseline is None:
        raise InputError("needs a file to write", subject="--update", hint="give --baseline FILE")
    project = config or find_config(Path.cwd())
    budget = Budget() if project is None else read_config(project).budget_of(bundle, opened.name)
    earlier = None
    if baseline is not None and not update:
        figures = read_baseline(baseline)
        if opened.name not in figures:
            raise InputError(
                "the baseline does not know the bundle",
                subject=baseline,
                expected=", ".join(figures) or "a bundle's name",
                found=opened.name,
                hint="--update adds it",
            )
        earlier = figures[opened.name]
    verdicts = judge(opened, budget, earlier)
    if not verdicts and not update:
        raise InputError(
            "there is nothing to judge the bundle by",
            subject=bundle,
            expected="a table [budget] in the project file, or --baseline FILE",
            found="no project file" if project is None else f"no budget in {project}",
        )
    passed = all(verdict.passed for verdict in verdicts)
    record = {"bundle": str(bundle), "passed": passed, "verdicts": [verdict.as_record() for verdict in verdicts]}
    rows = [
        (verdict.budget, verdict.limit, verdict.found, "ok" if verdict.passed else "FAILED") for verdict in verdicts
    ]
    if passed and update and baseline is not None:
        write_baseline(baseline, opened.name, Figures.of(opened.manifest))
        console.note(f"wrote {baseline}")
    console.show(record, lambda out: show_table(("budget", "limit", "found", ""), rows, out))
    if not passed:
        broken = "; ".join(f"{verdict.budget} {verdict.found}" for verdict in verdicts if not verdict.passed)
        console.fail(f"{bundle}: breaks its budget: {broken}")
