"""The options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgekit.cli._completion import profile_names

if TYPE_CHECKING:
    from edgekit.graph.sizes.shape_request import ShapeRequest

LabelsOption = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="The classes' names, one a line: for the app, and to write the samples' labels as names.",
    ),
]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX model.", show_default=False)]
ModelOutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="OUT", help="The ONNX file to write.", show_default=False)
]
TargetOption = Annotated[
    str,
    typer.Option(
        "--target", metavar="NAME", autocompletion=profile_names, help="A device profile; `edgekit targets` lists them."
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="A folder of samples: .npz files, or images or WAV files; a table with a row a sample: .csv, .tsv, "
        ".parquet, .npy or .npz; or a sample a line: .jsonl.",
    ),
]
LabelOption = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="COLUMN",
        help="The column that holds the class, where --data is a table; by default label.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class ShapeOptions:
    """``--dim`` and ``--shape``: what to fix dynamic dimensions to, or the sizes to leave them open for."""

    dim: Annotated[
        list[str],
        typer.Option(
            "--dim",
            metavar="NAME=SIZES",
            help="Fix a dynamic dimension by its name (`--dim N=1`), or leave it open for a range (`--dim N=1..8`) or "
            "a list of sizes (`--dim W=224,320,480`), the first of which is the default. May be given more than once.",
            show_default=False,
        ),
    ] = field(default_factory=list)
    shape: Annotated[
        list[str],
        typer.Option(
            "--shape",
            metavar="INPUT=SIZE,…",
            help="Fix an input's whole shape (`--shape x=1,3,224,224`); ? leaves a size as it is. "
            "May be given more than once.",
            show_default=False,
        ),
    ] = field(default_factory=list)

    def request(self) -> ShapeRequest:
        """What the options ask for.

        Raises:
            InputError: An option has another form.
        """
        from edgekit.graph.sizes.shape_request import ShapeRequest

        return ShapeRequest.parse(self.dim, self.shape)


QuantizerOption = Annotated[
    str | None,
    typer.Option(
        "--quantizer",
        metavar="NAME",
        help="The installed quantizer to use ({quantizers}); by default EdgeKit's own.",
        show_default=False,
    ),
]
