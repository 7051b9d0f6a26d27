"""``edgekit fix``: dynamic dimensions get their sizes, and nothing else changes."""

from __future__ import annotations

from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._features import render_features
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
    from edgekit import api

    request = shapes.request()
    fixed = api.fix(model, output, dims=request.dims, shapes=request.shapes, progress=console.progress)
    record = fixed.as_record()
    console.show(record, lambda out: render_features(record, out))
    for dimension in fixed.still_dynamic:
        console.note(f"still dynamic: input {dimension.input!r}, axis {dimension.axis}; {dimension.fix} fixes it")
    console.note(f"wrote {output}")
