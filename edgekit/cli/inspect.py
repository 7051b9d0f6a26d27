"""``edgekit inspect``: what goes into a model, what comes out, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._features import render_features, spec_record
from edgekit.cli._options import ModelArgument, ShapeOptions

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from edgekit.model import Model
    from edgekit.pipeline import Walk


@command("edgekit inspect model.onnx", "edgekit inspect model.onnx --dim batch=1 --json")
def inspect(console: Console, *, model: ModelArgument, shapes: ShapeOptions) -> None:
    """Show a model's inputs, outputs, operators, size and MACs.

    MACs are the multiplications, each with its addition, of one run. They can be told where the shapes are fixed, by
    the model or by --dim and --shape.
    """
    from edgekit.pipeline import Walk
    from edgekit.stages.load import Load

    walk = Walk(console.progress)
    loaded = walk.through(Load(), model)
    described = _describe(loaded.model, _with_shapes(walk, loaded.model, shapes), loaded.record)
    record = {**described, "warnings": walk.warnings}
    console.show(record, lambda out: _render(record, out))


def _with_shapes(walk: Walk, model: Model, shapes: ShapeOptions) -> Model:
    """The model with all shapes that can be known, to count on."""
    from edgekit.graph.shapes import fold_shapes, infer_shapes
    from edgekit.stages.fix_shapes import FixShapes

    if shapes.request():
        return walk.through(FixShapes(shapes.request()), model).model
    return fold_shapes(infer_shapes(model, strict=False))


def _describe(model: Model, shaped: Model, loaded: Any) -> dict[str, Any]:
    from collections import Counter

    from edgekit.graph.cost import cost, parameter_count
    from edgekit.model import op_name
    from edgekit.stages.fix_shapes import dynamic_dimensions

    operators = Counter(op_name(node) for node in model.graph.all_nodes())
    spent = cost(shaped)
    return {
        "file": loaded["file"],
        "bytes": loaded["bytes"],
        "sha256": loaded["sha256"],
        "producer": loaded["producer"],
        "opset": loaded["opset"],
        "upgraded_from_opset": loaded["upgraded_from_opset"],
        "inputs": [spec_record(spec) for spec in shaped.inputs],
        "outputs": [spec_record(spec) for spec in shaped.outputs],
        "dynamic_dimensions": [
            {"input": spec.name, "axis": axis, "dimension": dim, "fix": flag}
            for spec, axis, dim, flag in dynamic_dimensions(shaped)
        ],
        "nodes": operators.total(),
        "operators": dict(operators.most_common()),
        "parameters": parameter_count(model),
        "weight_bytes": model.weight_bytes,
        "macs": None if spent.uncounted else spent.macs,
        "uncounted_nodes": list(spent.uncounted),
    }


def _render(record: dict[str, Any], out: RichConsole) -> None:
    from rich import box
    from rich.filesize import decimal
    from rich.table import Table

    opset = f"opset {record['opset']}"
    if record["upgraded_from_opset"] is not None:
        opset += f" (upgraded from {record['upgraded_from_opset']})"
    facts = Table.grid(padding=(0, 2))
    facts.add_row("file", f"{record['file']}, {decimal(record['bytes'])}")
    facts.add_row("made by", record["producer"] or "unknown")
    facts.add_row("operators", f"{opset}, {record['nodes']} nodes")
    facts.add_row("parameters", f"{record['parameters']:,} in {decimal(record['weight_bytes'])}")
    facts.add_row("MACs", _macs(record))
    out.print(facts)
    render_features(record, out)
    if record["dynamic_dimensions"]:
        dynamic = Table("dynamic dimension", "of input", "axis", "fixed by", box=box.SIMPLE_HEAD)
        for dimension in record["dynamic_dimensions"]:
            name = dimension["dimension"] or "(no name)"
            dynamic.add_row(name, dimension["input"], str(dimension["axis"]), dimension["fix"])
        out.print(dynamic)
    operators = Table("operator", "nodes", box=box.SIMPLE_HEAD)
    for name, count in record["operators"].items():
        operators.add_row(name, str(count))
    out.print(operators)


def _macs(record: dict[str, Any]) -> str:
    if record["macs"] is not None:
        return f"{record['macs']:,}"
    count = len(record["uncounted_nodes"])
    return f"unknown: {count} node{'s' if count != 1 else ''} without fixed shapes"
