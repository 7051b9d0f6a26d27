"""The options of the commands that make bundles and work with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgekit.cli._completion import device_schemes

BundleArgument = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="A bundle that `edgekit package` wrote.", show_default=False)
]
SignersOption = Annotated[
    Path | None,
    typer.Option(
        "--signers",
        metavar="FILE",
        help="Demand a signature by one of these: a file of OpenSSH's allowed signers.",
        show_default=False,
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The project file; by default the nearest edgekit.toml here or in a folder above.",
        show_default=False,
    ),
]
DataConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The project file; by default the nearest edgekit.toml in the data folder or above it.",
        show_default=False,
    ),
]
MaxDropOption = Annotated[
    str | None,
    typer.Option(
        "--max-drop",
        metavar="SHARE",
        help="Accuracy that may be lost, such as 1% or 0.01, in points of the share of labels found; by default 1%.",
        show_default=False,
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        autocompletion=device_schemes,
        metavar="DEVICE",
        help="Where to execute it: {devices}.",
    ),
]
ResultsOption = Annotated[
    Path | None,
    typer.Option(
        "--results",
        metavar="FILE",
        help="Judge what the bundle's check wrote on a device that is not reached from here.",
        show_default=False,
    ),
]
InstructionSetsOption = Annotated[
    str | None,
    typer.Option(
        "--isa",
        metavar="NAMES",
        help="It has to be right with each of these instruction sets: avx2,avx512,vnni,amx,neon. Sets that neither "
        "this processor nor an emulator can execute are reported as not executed.",
        show_default=False,
    ),
]
MaxSizeOption = Annotated[
    str | None,
    typer.Option(
        "--max-size",
        metavar="SIZE",
        help="The most accurate model of at most this size, such as 3MB: a form for each weight; with the scheme auto "
        "and --data.",
        show_default=False,
    ),
]
SmallestOption = Annotated[
    bool,
    typer.Option(
        "--smallest",
        help="The smallest model that holds --max-drop, in place of the fastest: a form for each weight; with the "
        "scheme auto and --data.",
    ),
]
DeviceTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--device-timeout",
        metavar="SECONDS",
        min=1,
        help="How long the device may be silent; by default 120.",
        show_default=False,
    ),
]
OriginalOption = Annotated[
    Path | None,
    typer.Option("--model", metavar="MODEL", help="The ONNX model that the bundle was made from.", show_default=False),
]
