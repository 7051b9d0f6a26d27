"""``edgekit check``: what becomes of each node on a target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._options import ModelArgument, ShapeOptions, TargetOption

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from edgekit.target import NodeVerdict

AllOption = Annotated[bool, typer.Option("--all", help="List every node, also those that are plainly supported.")]


@command("edgekit check model.onnx --target ios18", "edgekit check model.onnx --target intel-npu --dim N=1 --json")
def check(
    console: Console,
    *,
    model: ModelArgument,
    target: TargetOption,
    shapes: ShapeOptions,
    list_all: AllOption = False,
) -> None:
    """Check a model's operators against a target.

    The nodes are those of the model as it would be built: shapes fixed, simplified. Each is supported, decomposed into
    others, falls back to a slower unit, is unsupported, or unknown; the evidence says how that is known. The exit code
    is 1 where a node is unsupported.
    """
    from edgekit.pipeline import Walk, require_open_dimensions
    from edgekit.registry import find_profile
    from edgekit.stages.fix_shapes import FixShapes
    from edgekit.stages.load import Load
    from edgekit.stages.simplify import Simplify
    from edgekit.target import Support

    plugin, profile = find_profile(target)
    request = shapes.request()
    require_open_dimensions(request, plugin, profile)
    walk = Walk(console.progress)
    fixed = walk.through(FixShapes(request), walk.through(Load(), model).model).model
    simplified = walk.through(Simplify(), fixed).model
    with console.progress.stage("check operators"):
        verdicts = plugin.check(simplified, profile)
    counts = {support.value: sum(verdict.support is support for verdict in verdicts) for support in Support}
    record = {
        "model": str(model),
        "target": profile.name,
        "supported": counts[Support.UNSUPPORTED] == 0,
        "counts": counts,
        "nodes": [asdict(verdict) for verdict in verdicts],
        "warnings": walk.warnings,
    }
    rows = _rows(verdicts) if list_all else _grouped_rows(v for v in verdicts if v.support is not Support.SUPPORTED)
    console.show(record, lambda out: _render(rows, counts, out))
    if not record["supported"]:
        count = counts[Support.UNSUPPORTED]
        console.fail(f"{model}: {profile.name} does not take {count} of {len(verdicts)} nodes")


Row = tuple[str, ...]


def _rows(verdicts: Iterable[NodeVerdict]) -> list[Row]:
    """A row a node."""
    return [(verdict.node, *_fate(verdict)) for verdict in verdicts]


def _grouped_rows(verdicts: Iterable[NodeVerdict]) -> list[Row]:
    """A row for all nodes that fare alike: the first one's name, and how many more there are."""
    groups: dict[Row, list[str]] = {}
    for verdict in verdicts:
        groups.setdefault(_fate(verdict), []).append(verdict.node)
    return [
        (nodes[0] if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more", *fate)
        for fate, nodes in groups.items()
    ]


def _fate(verdict: NodeVerdict) -> Row:
    detail = "; ".join(filter(None, (verdict.detail, verdict.hint)))
    return verdict.op_type, verdict.support, verdict.unit, verdict.evidence, detail


def _render(rows: Sequence[Row], counts: dict[str, Any], out: RichConsole) -> None:
    from rich import box
    from rich.table import Table

    if rows:
        table = Table("node", "operator", "verdict", "unit", "evidence", "detail", box=box.SIMPLE_HEAD)
        for row in rows:
            table.add_row(*row)
        out.print(table)
    out.print(", ".join(f"{count} {support}" for support, count in counts.items() if count) or "no nodes")
