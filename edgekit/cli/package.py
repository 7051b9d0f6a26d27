"""``edgekit package``: from an ONNX model to a verified bundle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from edgekit.cli._bundle_options import (
    DataConfigOption,
    InstructionSetsOption,
    MaxDropOption,
    MaxSizeOption,
    SmallestOption,
)
from edgekit.cli._bundle_view import show_summary
from edgekit.cli._command import command
from edgekit.cli._completion import profile_names
from edgekit.cli._console import Console
from edgekit.cli._options import (
    DataOption,
    LabelOption,
    LabelsOption,
    ModelArgument,
    QuantizerOption,
    ShapeOptions,
    TargetOption,
)
from edgekit.cli._search_options import SearchOptions

NameOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="The bundle's name in reports, in `edgekit gate` and in an app; by default its folder's name.",
        show_default=False,
    ),
]
VerifyDataOption = Annotated[
    Path | None,
    typer.Option("--verify-data", metavar="DIR", help="Samples to verify on, instead of those of --data."),
]
QuantizeOption = Annotated[
    str | None,
    typer.Option(
        "--quantize",
        metavar="SCHEME",
        help="{schemes}, none, or a scheme of the target's own ({weight_schemes}). Schemes with a * need --data. "
        "By default auto with --data, none without.",
        show_default=False,
    ),
]
PrecisionOption = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="TYPE",
        help="auto, float32 or float16; auto is the target's choice, if that is accurate enough.",
    ),
]
FloorOption = Annotated[
    float | None,
    typer.Option(
        "--floor",
        metavar="DB",
        help="Signal-to-noise ratio in dB that outputs have to reach over all samples; by default 50 in float32, 20 in "
        "less. Below float32, equal decisions count as well.",
        show_default=False,
    ),
]
AcceptOption = Annotated[
    bool,
    typer.Option(
        "--accept",
        help="Ship a build that misses its floors; the manifest and the report say so. A build with broken outputs "
        "never ships.",
    ),
]
PostprocessOption = Annotated[
    str | None,
    typer.Option(
        "--postprocess",
        metavar="nms[,NAME=NUMBER…]",
        help="Suppress a detector's boxes in the model, which then gives each object once: nms, or "
        "nms,iou=0.5,score=0.05,boxes=100 with other numbers. Needs --data.",
        show_default=False,
    ),
]
StateOption = Annotated[
    list[str],
    typer.Option(
        "--state",
        metavar="INPUT=OUTPUT",
        help="An input that the built model keeps from one run to the next, and the output that replaces it, for "
        "targets with states. May be given more than once.",
        show_default=False,
    ),
]
TargetOptionOption = Annotated[
    list[str],
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the target itself; `edgekit targets --json` lists them. May be given more than once.",
        show_default=False,
    ),
]
AlsoOption = Annotated[
    list[str],
    typer.Option(
        "--also",
        autocompletion=profile_names,
        metavar="NAME",
        help="A further device profile: the bundle then holds a build for each, and a device takes the one that it can "
        "load. May be given more than once.",
        show_default=False,
    ),
]
WitnessOption = Annotated[
    str | None,
    typer.Option(
        "--witness",
        metavar="NAME",
        help="Have a second runtime ({witnesses}) execute what was built, too; it has to reach the same floors.",
        show_default=False,
    ),
]
BundleOutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="BUNDLE",
        help="The bundle to write, which replaces an older one; by default MODEL-TARGET in the working directory.",
        show_default=False,
    ),
]


@command(
    "edgekit package model.onnx --target ios18 --dim N=1 -o model-ios18",
    "edgekit package model.onnx --target intel-cpu --data samples --max-drop 1%",
)
def package(
    console: Console,
    model: ModelArgument,
    target: TargetOption,
    *,
    also: AlsoOption = [],  # noqa: B006 - as `option` below
    data: DataOption = None,
    verify_data: VerifyDataOption = None,
    label: LabelOption = None,
    quantize: QuantizeOption = None,
    quantizer: QuantizerOption = None,
    max_drop: MaxDropOption = None,
    max_size: MaxSizeOption = None,
    smallest: SmallestOption = False,
    floor: FloorOption = None,
    accept: AcceptOption = False,
    search: SearchOptions,
    shapes: ShapeOptions,
    precision: PrecisionOption = "auto",
    postprocess: PostprocessOption = None,
    state: StateOption = [],  # noqa: B006 - as `option` below
    labels: LabelsOption = None,
    option: TargetOptionOption = [],  # noqa: B006 - Typer wants the default itself, and does not change it
    isa: InstructionSetsOption = None,
    witness: WitnessOption = None,
    config: DataConfigOption = None,
    output: BundleOutputOption = None,
    name: NameOption = None,
) -> None:
    """Package a model for a device, and prove that it still works.

    The model is checked, quantized if that is asked for, built, verified and measured.
    The bundle holds what the device loads, golden data with a check to run on the device, a manifest and a report. It
    is written only if what was built, executed here, computes what the original computes.

    Pictures and WAV files in --data become inputs as [preprocessing] in the project file says.
    """
    from edgekit import api
    from edgekit.reporting.summary import summary_record

    request = shapes.request()
    states, options = parse_options(state, "--state", "INPUT=OUTPUT"), parse_options(option)
    if quantize is None and not states:
        console.note(_SCHEME_NOTES[data is not None])
    bundle = api.package(
        model,
        target,
        output,
        name=name,
        data=data,
        verify_data=verify_data,
        label=label,
        quantize=quantize,
        quantizer=quantizer,
        max_drop=max_drop,
        max_size=max_size,
        smallest=smallest,
        floor=floor,
        accept=accept,
        metric=search.metric,
        workers=search.workers,
        cluster=search.cluster,
        like=search.like,
        dims=request.dims,
        shapes=request.shapes,
        precision=precision,
        postprocess=postprocess,
        states=states,
        labels=labels,
        options=options,
        isa=isa,
        also=also,
        witness=witness,
        config=config,
        progress=console.progress,
    )
    console.show({"bundle": str(bundle.path), **summary_record(bundle.manifest)}, lambda out: show_summary(bundle, out))


_SCHEME_NOTES = {
    False: "--quantize none: there is no --data to calibrate on",
    True: "--quantize auto: --data is there to calibrate on; --quantize none keeps the model in float",
}


def parse_options(texts: Sequence[str], flag: str = "--option", form: str = "NAME=VALUE") -> dict[str, str]:
    """The values by name of ``--option NAME=VALUE``, or of another flag of this form.

    Raises:
        InputError: A text has another form, or a name occurs twice.
    """
    from edgekit.errors import InputError

    options: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or name in options:
            raise InputError("cannot be used", subject=f"{flag} {text}", expected=f"{form}, a name only once")
        options[name] = value
    return options
