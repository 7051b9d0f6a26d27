"""``edgekit check``: what becomes of each node on a target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._options import ModelArgument, ShapeOptions, TargetOption

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from edgekit.operators.sarif import Finding
    from edgekit.operators.support import OperatorSupport
    from edgekit.target import NodeVerdict

AllOption = Annotated[bool, typer.Option("--all", help="List every node, also those that are plainly supported.")]
SarifOption = Annotated[
    Path | None,
    typer.Option("--sarif", metavar="FILE", help="Also write what is not plainly supported as SARIF 2.1.0."),
]


@command("edgekit check model.onnx --target ios18", "edgekit check model.onnx --target android-qnn --dim N=1 --json")
def check(
    console: Console,
    *,
    model: ModelArgument,
    target: TargetOption,
    shapes: ShapeOptions,
    list_all: AllOption = False,
    sarif: SarifOption = None,
) -> None:
    """Check a model's operators against a target.

    The nodes are those of the model as it would be built: shapes fixed, simplified, what the target refuses rewritten
    where a rewrite is known. Each is supported, decomposed into others, falls back to a slower unit, is unsupported, or
    unknown; the evidence says how that is known. The last line says how well the model fits the device's accelerator.
    The exit code is 1 where a node is unsupported.
    """
    from edgekit import __version__
    from edgekit.operators.sarif import sarif_log, write_sarif
    from edgekit.operators.support import summarize
    from edgekit.pipeline import Walk
    from edgekit.registry import find_profile, installed_rewrites
    from edgekit.rewrites.adaptation import adapted
    from edgekit.stages.fix_shapes import FixShapes
    from edgekit.stages.load import Load
    from edgekit.stages.simplify import Simplify
    from edgekit.target import Support

    plugin, profile = find_profile(target)
    request = shapes.request()
    walk = Walk(console.progress)
    fixed = walk.through(FixShapes(request), walk.through(Load(), model).model).model
    simplified = walk.through(Simplify(), fixed).model
    with console.progress.stage("check operators"):
        adaptation = adapted(simplified, plugin, profile, installed_rewrites())
        verdicts = adaptation.verdicts
        support = summarize(adaptation.rewritten.model, verdicts, profile)
    counts = {each.value: sum(verdict.support is each for verdict in verdicts) for each in Support}
    record = {
        "model": str(model),
        "target": profile.name,
        "supported": counts[Support.UNSUPPORTED] == 0,
        **support.as_record(),
        "counts": counts,
        "nodes": [asdict(verdict) for verdict in verdicts],
        "rewrites": adaptation.rewritten.as_record()["rewrites"],
        "warnings": [*walk.warnings, *adaptation.rewritten.warnings],
    }
    if sarif is not None:
        log = sarif_log(_findings(model, profile.name, verdicts, support), tool="edgekit check", version=__version__)
        write_sarif(log, sarif)
    rows = _rows(verdicts) if list_all else _grouped_rows(v for v in verdicts if v.support is not Support.SUPPORTED)
    console.show(record, lambda out: _render(rows, counts, support, out))
    if not record["supported"]:
        count = counts[Support.UNSUPPORTED]
        console.fail(f"{model}: {profile.name} does not take {count} of {len(verdicts)} nodes")


def _findings(
    model: Path, profile: str, verdicts: Iterable[NodeVerdict], support: OperatorSupport
) -> Iterator[Finding]:
    """What is not plainly supported, node by node, and the model's fit where that is poor."""
    from edgekit.operators.sarif import Finding, Level, Rule
    from edgekit.operators.support import Fit
    from edgekit.target import Support

    rules = {
        Support.UNSUPPORTED: Rule("unsupported-operator", "The target cannot take the node.", Level.ERROR),
        Support.FALLS_BACK: Rule("falls-back", "The node runs on a slower unit of the device.", Level.WARNING),
        Support.UNKNOWN: Rule("unknown-support", "Nothing is known of the node on the target.", Level.NOTE),
    }
    for verdict in verdicts:
        if verdict.support in rules:
            reason = "; ".join(filter(None, (verdict.detail, verdict.hint)))
            message = f"{verdict.op_type} {verdict.node!r} on {profile}: {verdict.support}"
            facts = {"operator": verdict.op_type, "evidence": str(verdict.evidence), "unit": verdict.unit}
            yield Finding(
                rules[verdict.support], f"{message} ({reason})" if reason else message, model, verdict.node, facts
            )
    if support.fit is Fit.POOR:
        rule = Rule("poor-fit", "The accelerator does too little of the work, or in too many parts.", Level.WARNING)
        yield Finding(rule, f"{profile}: {support}", model)


Row = tuple[str, ...]


def _rows(verdicts: Iterable[NodeVerdict]) -> list[Row]:
    """A row a node."""
    return [(verdict.node, *_fate(verdict)) for verdict in verdicts]


def _grouped_rows(verdicts: Iterable[NodeVerdict]) -> list[Row]:
    """A row for all nodes that fare alike: the first one's name, and how many more there are."""
    from edgekit.operators.support import is_about_operator

    groups: dict[Row, list[NodeVerdict]] = {}
    for verdict in verdicts:
        operator, *fate = _fate(verdict)
        groups.setdefault((operator if is_about_operator(verdict) else "", *fate), []).append(verdict)
    return [(_and_more([v.node for v in group]), _operators(group), *fate) for (_, *fate), group in groups.items()]


def _and_more(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _operators(verdicts: Sequence[NodeVerdict]) -> str:
    kinds = list(dict.fromkeys(verdict.op_type for verdict in verdicts))
    return kinds[0] if len(kinds) == 1 else f"{len(kinds)} operators"


def _fate(verdict: NodeVerdict) -> Row:
    detail = "; ".join(filter(None, (verdict.detail, verdict.hint)))
    unit = verdict.unit
    if unit and verdict.unit_evidence not in (None, verdict.evidence):
        unit = f"{unit} ({verdict.unit_evidence})"
    return verdict.op_type, verdict.support, unit, verdict.evidence, detail


def _render(rows: Sequence[Row], counts: dict[str, Any], support: OperatorSupport, out: RichConsole) -> None:
    from rich import box
    from rich.table import Table

    if rows:
        table = Table("node", "operator", "verdict", "unit", "evidence", "detail", box=box.SIMPLE_HEAD)
        for row in rows:
            table.add_row(*row)
        out.print(table)
    out.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "no nodes")
    out.print(str(support))
