"""``edgekit extract``: a part of a model as a separate model."""

from __future__ import annotations

from typing import Annotated

import typer

from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._features import render_features
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
    from edgekit import api

    part = api.extract(model, output, outputs=outputs, inputs=inputs or (), progress=console.progress)
    record = part.as_record()
    console.show(record, lambda out: render_features(record, out))
    console.note(f"wrote {output}")
