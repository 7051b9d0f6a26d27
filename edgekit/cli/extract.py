"""``edgekit extract``: a part of a model, as a model of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._features import render_features, spec_record
from edgekit.cli._options import ModelArgument, ModelOutputOption

OutputsOption = Annotated[
    list[str],
    typer.Option("--outputs", metavar="NAMES", help="The values to compute, separated by commas.", show_default=False),
]
InputsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--inputs",
        metavar="NAMES",
        help="The values to start from, separated by commas; by default, the model's own inputs.",
        show_default=False,
    ),
]


@command(
    "edgekit extract model.onnx --outputs features -o backbone.onnx",
    "edgekit extract model.onnx --inputs features --outputs logits -o head.onnx",
)
def extract(
    console: Console,
    *,
    model: ModelArgument,
    outputs: OutputsOption,
    output: ModelOutputOption,
    inputs: InputsOption = None,
) -> None:
    """Cut a sub-model out of a model.

    Names are those of values: inputs, outputs, or what flows between two nodes. A node's name stands for its outputs.
    """
    from edgekit.graph.extraction import extract_part
    from edgekit.graph.onnx_file import write_model
    from edgekit.pipeline import Walk
    from edgekit.stages.load import Load

    walk = Walk(console.progress)
    loaded = walk.through(Load(), model).model
    part = extract_part(loaded, outputs=outputs, inputs=inputs or [])
    write_model(part, output)
    record = {
        "output": str(output),
        "nodes": sum(1 for _ in part.graph.all_nodes()),
        "nodes_before": sum(1 for _ in loaded.graph.all_nodes()),
        "inputs": [spec_record(spec) for spec in part.inputs],
        "outputs": [spec_record(spec) for spec in part.outputs],
        "warnings": walk.warnings,
    }
    console.show(record, lambda out: render_features(record, out))
    console.note(f"wrote {output}")
