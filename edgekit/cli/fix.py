"""``edgekit fix``: dynamic dimensions get their sizes, and nothing else changes."""

from __future__ import annotations

from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._features import render_features, spec_record
from edgekit.cli._options import ModelArgument, ModelOutputOption, ShapeOptions


@command(
    "edgekit fix model.onnx --dim batch=1 -o fixed.onnx",
    "edgekit fix model.onnx --shape image=1,3,224,224 -o fixed.onnx",
)
def fix(console: Console, *, model: ModelArgument, shapes: ShapeOptions, output: ModelOutputOption) -> None:
    """Fix a model's dynamic dimensions.

    Names are those that `edgekit inspect` shows. What the model computes from its shapes becomes constant; what stays
    dynamic is listed with the option that would fix it.
    """
    from edgekit.errors import InputError
    from edgekit.graph.onnx_file import write_model
    from edgekit.pipeline import Walk
    from edgekit.stages.fix_shapes import FixShapes, dynamic_dimensions
    from edgekit.stages.load import Load

    walk = Walk(console.progress)
    request = shapes.request()
    loaded = walk.through(Load(), model).model
    if not request:
        flags = dict.fromkeys(flag for *_, flag in dynamic_dimensions(loaded))
        raise InputError(
            "says nothing to fix",
            subject="edgekit fix",
            found="; ".join(str(spec) for spec in loaded.inputs),
            hint=f"give {' '.join(flags)}" if flags else "every input has a fixed shape already",
        )
    fixed = walk.through(FixShapes(request), loaded)
    write_model(fixed.model, output)
    features = {
        "inputs": [spec_record(spec) for spec in fixed.model.inputs],
        "outputs": [spec_record(spec) for spec in fixed.model.outputs],
    }
    record = {"output": str(output), **fixed.record, **features, "warnings": walk.warnings}
    console.show(record, lambda out: render_features(features, out))
    for dimension in fixed.record["still_dynamic"]:
        console.note(
            f"still dynamic: input {dimension['input']!r}, axis {dimension['axis']}; {dimension['fix']} fixes it"
        )
    console.note(f"wrote {output}")
