"""``edgekit inspect``: what goes into a model, what comes out, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgekit.cli._bundle_view import show_table
from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._features import render_features
from edgekit.cli._options import ModelArgument, ShapeOptions

if TYPE_CHECKING:
    from rich.console import Console as RichConsole


MOST_TEXT = 60
"""How many characters of a text in the file's metadata are shown."""


@command("edgekit inspect model.onnx", "edgekit inspect model.onnx --dim batch=1 --json")
def inspect(console: Console, *, model: ModelArgument, shapes: ShapeOptions) -> None:
    """Show a model's inputs, outputs, operators, size and MACs.

    MACs are the multiplications, each with its addition, of one run. They can be told where the shapes are fixed, by
    the model or by --dim and --shape.
    """
    from edgekit import api

    request = shapes.request()
    record = api.inspect(model, dims=request.dims, shapes=request.shapes, progress=console.progress).as_record()
    console.show(record, lambda out: _render(record, out))


def _render(record: dict[str, Any], out: RichConsole) -> None:
    from rich.filesize import decimal
    from rich.table import Column, Table

    opset = f"opset {record['opset']}"
    if record["upgraded_from_opset"] is not None:
        raised = record["opset"] > record["upgraded_from_opset"]
        opset += f" ({'upgraded' if raised else 'lowered'} from {record['upgraded_from_opset']})"
    facts = Table.grid(Column(), Column(overflow="fold"), padding=(0, 2))
    facts.add_row("file", f"{record['file']}, {decimal(record['bytes'])}")
    facts.add_row("made by", record["producer"] or "unknown")
    facts.add_row("operators", f"{opset}, {_nodes(record['nodes'])}")
    facts.add_row("parameters", f"{record['parameters']:,} in {decimal(record['weight_bytes'])}")
    facts.add_row("MACs", _macs(record))
    for key, text in record["metadata"].items():
        line = " ".join(text.split())
        facts.add_row(key, line if len(line) <= MOST_TEXT else f"{line[:MOST_TEXT]}…")
    out.print(facts)
    render_features(record, out)
    if record["dynamic_dimensions"]:
        dynamic = [
            (each["dimension"] or "(no name)", each["input"], str(each["axis"]), each["fix"])
            for each in record["dynamic_dimensions"]
        ]
        show_table(("dynamic dimension", "of input", "axis", "fixed by"), dynamic, out)
    show_table(("operator", "nodes"), ((name, str(count)) for name, count in record["operators"].items()), out)


def _macs(record: dict[str, Any]) -> str:
    if record["macs"] is not None:
        return f"{record['macs']:,}"
    return f"unknown: {_nodes(len(record['uncounted_nodes']))} without fixed shapes"


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"
