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
        help="The project file; by default the nearest edgekit.toml in the working directory or above it.",
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
        help="Accuracy that may be lost, absolute, such as 1% or 0.01; by default 1%.",
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
        help="Judge the results that the bundle's check wrote on a device that cannot be reached from here.",
        show_default=False,
    ),
]
InstructionSetsOption = Annotated[
    str | None,
    typer.Option(
        "--isa",
        metavar="NAMES",
        help="The bundle has to be right with each of these instruction sets: avx2,avx512,vnni,amx,neon. Sets that "
        "neither this processor nor an emulator can execute are reported as not executed.",
        show_default=False,
    ),
]
MaxSizeOption = Annotated[
    str | None,
    typer.Option(
        "--max-size",
        metavar="SIZE",
        help="Choose the most accurate model of at most this size, such as 3MB. Needs the scheme auto and --data.",
        show_default=False,
    ),
]
SmallestOption = Annotated[
    bool,
    typer.Option(
        "--smallest",
        help="Choose the smallest model that stays within --max-drop, instead of the fastest. Needs the scheme auto "
        "and --data.",
    ),
]
DeviceTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--device-timeout",
        metavar="SECONDS",
        min=1,
        help="How long the device may send nothing; by default 120.",
        show_default=False,
    ),
]
OriginalOption = Annotated[
    Path | None,
    typer.Option("--model", metavar="MODEL", help="The ONNX model that the bundle was made from.", show_default=False),
]
