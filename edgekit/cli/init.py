"""``edgekit init``: a project file from a model and its samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgekit.cli._command import command
from edgekit.cli._completion import profile_names
from edgekit.cli._console import Console
from edgekit.cli._options import LabelOption, ModelArgument

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Samples that bundles are made with: a folder or a table.", show_default=False
    ),
]
TargetsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        autocompletion=profile_names,
        metavar="TARGET",
        help=(
            "A device profile; may be given more than once. By default the first one of each target that builds here."
        ),
        show_default=False,
    ),
]
OutputOption = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The project file to write.")]


@command("edgekit init model.onnx --data samples", "edgekit init model.onnx --target ios18 --target intel-cpu")
def init(
    console: Console,
    *,
    model: ModelArgument,
    data: DataOption = None,
    label: LabelOption = None,
    target: TargetsOption = None,
    output: OutputOption = Path("edgekit.toml"),
) -> None:
    """Write edgekit.toml from a model and its samples.

    The file declares a bundle for each target, the samples, and sizes of free dimensions that all samples have. For
    pictures and sounds it declares how they become the input, as far as the files show it: change the values that
    differ from those of the training.
    """
    from edgekit import api

    draft = api.init(model, data=data, label=label, targets=target or (), output=output, progress=console.progress)
    console.show(draft.as_record(), lambda out: out.print(f"{draft.path}: {', '.join(draft.bundles)}", soft_wrap=True))
    for name, why in draft.left_out.items():
        console.warn(f"{name} is left out: {why}")
    for name in draft.open_dims:
        console.warn(f"the size of {name} is open: give it in {draft.path}, in dims")
