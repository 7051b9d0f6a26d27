"""``edgekit quantize``: a float model becomes one with 8-bit numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgekit.cli._bundle_options import (
    DataConfigOption,
    InstructionSetsOption,
    MaxDropOption,
    MaxSizeOption,
    SmallestOption,
)
from edgekit.cli._command import command
from edgekit.cli._completion import profile_names
from edgekit.cli._console import Console
from edgekit.cli._explain import print_layers
from edgekit.cli._options import (
    DataOption,
    LabelOption,
    LabelsOption,
    ModelArgument,
    ModelOutputOption,
    QuantizerOption,
    ShapeOptions,
)
from edgekit.cli._search_options import SearchOptions

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

SchemeOption = Annotated[
    str,
    typer.Option(
        "--scheme",
        metavar="SCHEME",
        help="{schemes}. Those with a * need --data.",
    ),
]
ExplainOption = Annotated[
    bool,
    typer.Option("--explain", help="Print what happened to each layer, the error that it adds, and all candidates."),
]
OptionalTargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        autocompletion=profile_names,
        metavar="NAME",
        help="The device profile to quantize for and to score candidates on; by default, what suits most devices.",
        show_default=False,
    ),
]


@command(
    "edgekit quantize model.onnx --data samples -o model-int8.onnx",
    "edgekit quantize model.onnx --data samples --max-drop 0.5% -o small.onnx",
)
def quantize(
    console: Console,
    *,
    model: ModelArgument,
    data: DataOption = None,
    label: LabelOption = None,
    target: OptionalTargetOption = None,
    scheme: SchemeOption = "auto",
    quantizer: QuantizerOption = None,
    max_drop: MaxDropOption = None,
    max_size: MaxSizeOption = None,
    smallest: SmallestOption = False,
    search: SearchOptions,
    explain: ExplainOption = False,
    shapes: ShapeOptions,
    isa: InstructionSetsOption = None,
    config: DataConfigOption = None,
    labels: LabelsOption = None,
    output: ModelOutputOption,
) -> None:
    """Quantize a model: ONNX in, smaller ONNX out.

    The samples in --data calibrate the ranges of values. --max-drop limits the accuracy that may be lost on them:
    labels found, equal decisions, or a measure of your own (--metric). With --target, candidates are built for that
    target, and scored on its runtime.
    """
    from edgekit import api
    from edgekit.quantizer import BudgetError

    request = shapes.request()
    try:
        quantized = api.quantize(
            model,
            output,
            data=data,
            label=label,
            target=target,
            scheme=scheme,
            quantizer=quantizer,
            max_drop=max_drop,
            max_size=max_size,
            smallest=smallest,
            metric=search.metric,
            workers=search.workers,
            cluster=search.cluster,
            like=search.like,
            dims=request.dims,
            shapes=request.shapes,
            isa=isa,
            config=config,
            labels=labels,
            explain=explain,
            progress=console.progress,
        )
    except BudgetError as error:
        if explain and not console.as_json:  # with --json, the error's record holds the layers anyway
            found = error.record
            console.show(found, lambda out: print_layers(found, out))
        raise
    record = quantized.as_record()
    console.show(record, lambda out: _render(record, out, explain=explain))
    console.note(f"wrote {output}")


def _render(record: Mapping[str, Any], out: RichConsole, *, explain: bool) -> None:
    from rich.filesize import decimal

    from edgekit.comparison.acceptance.trade_off import curve_lines

    if explain:
        print_layers(record, out)
    if record.get("curve") and (explain or "reason" in record):
        beside = [record["unrestricted"]] if "unrestricted" in record else []
        for line in curve_lines([*record["curve"], *beside]):
            out.print(line, soft_wrap=True)
        out.print()
    for failure in record.get("failed", ()):
        out.print(f"{failure['candidate']}: {failure['reason']}", soft_wrap=True)
    out.print(f"scheme: {record['scheme']}" + (f" ({record['chosen']})" if "chosen" in record else ""))
    if "reason" in record:
        out.print(f"because: {record['reason']}", soft_wrap=True)
    else:
        out.print(f"measured: {_measured(record)}", soft_wrap=True)
        if (faster := _speed(record)) is not None:
            out.print(f"speed: {faster}", soft_wrap=True)
    out.print(f"weights: {decimal(record['weight_bytes_before'])}, now {decimal(record['weight_bytes'])}")
    out.print(f"file: {decimal(record['bytes_before'])}, now {decimal(record['bytes'])}")


def _measured(record: Mapping[str, Any]) -> str:
    """The quality of the chosen candidate, as the quantizer measured it, in words."""
    from edgekit.comparison.acceptance.trade_off import metric_text, value_text
    from edgekit.units import decibel_text

    trial = _chosen(record)
    if trial is None:
        return "nothing" if record.get("samples") else "nothing, without samples"
    value, reference = (value_text(trial["metric"], trial[key]) for key in ("value", "float_value"))
    lost = f"; {trial['lost_class']}" if "lost_class" in trial else ""
    head = trial.get("head")
    what = "choice" if head is not None and trial["heads"][head].get("inside") else "output"
    beside = "" if head is None else f", {what} {head!r} keeps {trial['heads'][head]['kept']:.2%}"
    return (
        f"{metric_text(trial)} {value} (float {reference}{lost}){beside}, "
        f"SQNR {decibel_text(trial['sqnr_db'])}, on the samples that it was calibrated on"
    )


def _speed(record: Mapping[str, Any]) -> str | None:
    """How much faster than float the chosen candidate is; None if it was not timed."""
    from edgekit.reporting.summary import speedup_text

    trial = _chosen(record)
    return None if trial is None else speedup_text(trial)


def _chosen(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The record of the chosen candidate's trial; None if there is none."""
    return next((trial for trial in record.get("curve", ()) if trial["candidate"] == record.get("chosen")), None)
