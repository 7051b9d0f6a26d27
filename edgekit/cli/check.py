"""``edgekit check``: how a target supports each node of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgekit.cli._bundle_view import show_table
from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._options import ModelArgument, ShapeOptions, TargetOption

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from edgekit.api import OperatorCheck
    from edgekit.operators.sarif import Finding
    from edgekit.target import NodeVerdict

AllOption = Annotated[bool, typer.Option("--all", help="List every node, also those that are plainly supported.")]
SarifOption = Annotated[
    Path | None,
    typer.Option("--sarif", metavar="FILE", help="Also write nodes that are not plainly supported as SARIF 2.1.0."),
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

    The nodes are those of the model as it would be built: with fixed shapes, simplified, and with rewrites of nodes
    that the target refuses. Each node is supported, decomposed into others, falls back to a slower unit, is
    unsupported, or unknown; the evidence says how that is known. The last line says how well the model fits the
    device's accelerator. The exit code is 1 if a node is unsupported.
    """
    from edgekit import api
    from edgekit.errors import EdgeKitError
    from edgekit.operators.findings import operator_findings, unchecked
    from edgekit.target import Support

    request = shapes.request()
    try:
        found = api.check(model, target, dims=request.dims, shapes=request.shapes, progress=console.progress)
    except EdgeKitError as error:
        if sarif is not None and (error.subject or "").startswith(str(model)):
            _write_findings([unchecked(model, error)], sarif)
        raise
    verdicts = found.verdicts
    if sarif is not None:
        _write_findings(operator_findings(model, found.target, verdicts, found.support), sarif)
    rows = _rows(verdicts) if list_all else _grouped_rows(v for v in verdicts if v.support is not Support.SUPPORTED)
    console.show(found.as_record(), lambda out: _render(rows, found, out))
    if not found.supported:
        count = found.counts[Support.UNSUPPORTED]
        console.fail(f"{model}: {found.target} does not take {count} of {len(verdicts)} nodes")


def _write_findings(findings: Iterable[Finding], place: Path) -> None:
    from edgekit import __version__
    from edgekit.operators.sarif import sarif_log, write_sarif

    write_sarif(sarif_log(findings, tool="edgekit check", version=__version__), place)


Row = tuple[str, ...]


def _rows(verdicts: Iterable[NodeVerdict]) -> list[Row]:
    """One row per node."""
    return [(verdict.node, *_shown(verdict)) for verdict in verdicts]


def _grouped_rows(verdicts: Iterable[NodeVerdict]) -> list[Row]:
    """One row for all nodes with the same verdict: the first node's name, and the number of the others."""
    from edgekit.operators.support import is_about_operator

    groups: dict[Row, list[NodeVerdict]] = {}
    for verdict in verdicts:
        operator, *shown = _shown(verdict)
        groups.setdefault((operator if is_about_operator(verdict) else "", *shown), []).append(verdict)
    return [(_and_more([v.node for v in group]), _operators(group), *shown) for (_, *shown), group in groups.items()]


def _and_more(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _operators(verdicts: Sequence[NodeVerdict]) -> str:
    kinds = list(dict.fromkeys(verdict.op_type for verdict in verdicts))
    return kinds[0] if len(kinds) == 1 else f"{len(kinds)} operators"


def _shown(verdict: NodeVerdict) -> Row:
    detail = "; ".join(filter(None, (verdict.detail, verdict.hint)))
    unit = verdict.unit
    if unit and verdict.unit_evidence not in (None, verdict.evidence):
        unit = f"{unit} ({verdict.unit_evidence})"
    return verdict.op_type, verdict.support, unit, verdict.evidence, detail


def _render(rows: Sequence[Row], found: OperatorCheck, out: RichConsole) -> None:
    if rows:
        show_table(("node", "operator", "verdict", "unit", "evidence", "detail"), rows, out)
    out.print(", ".join(verdict.counted(count) for verdict, count in found.counts.items() if count) or "no nodes")
    out.print(str(found.support))
