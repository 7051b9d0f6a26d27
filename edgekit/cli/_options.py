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
        help="The names of the classes, one per line: for the app, and for labels of samples that are names.",
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
        help="Samples: a folder of .npz files, pictures or WAV files; a table with one sample per row (.csv, .tsv, "
        ".parquet, .npy, .npz); or a file with one sample per line (.jsonl).",
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
            help="Fix the whole shape of an input (`--shape x=1,3,224,224`); ? leaves a size as it is. "
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
