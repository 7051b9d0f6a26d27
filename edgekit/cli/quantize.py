"""``edgekit quantize``: a float model becomes one with 8-bit numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgekit.cli._bundle_options import DataConfigOption, MaxDropOption, parse_max_drop
from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._data import open_data
from edgekit.cli._explain import print_layers
from edgekit.cli._options import DataOption, ModelArgument, ModelOutputOption, QuantizerOption, ShapeOptions
from edgekit.cli._search_options import SearchOptions

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from edgekit.quantizer import QuantizationRequest
    from edgekit.stages import StageResult

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
    typer.Option("--explain", help="Print what became of every layer, the error that it adds, and the trade-off."),
]
OptionalTargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME",
        help="A device profile to quantize for and to score candidates on; by default, what suits most devices.",
        show_default=False,
    ),
]


@command(
    "edgekit quantize model.onnx --data samples -o model-int8.onnx",
    "edgekit quantize model.onnx --data samples --target intel-cpu --max-drop 0.5% -o model-int8.onnx",
)
def quantize(
    console: Console,
    *,
    model: ModelArgument,
    data: DataOption = None,
    target: OptionalTargetOption = None,
    scheme: SchemeOption = "auto",
    quantizer: QuantizerOption = None,
    max_drop: MaxDropOption = None,
    search: SearchOptions,
    explain: ExplainOption = False,
    shapes: ShapeOptions,
    config: DataConfigOption = None,
    output: ModelOutputOption,
) -> None:
    """Quantize a model: ONNX in, smaller ONNX out.

    The samples in --data calibrate the ranges; where they have labels, --max-drop bounds the accuracy that may be lost.
    --metric names a measure of your own. With --target, candidates are built and scored on that target's runtime.
    """
    from edgekit.errors import InputError
    from edgekit.fingerprint import model_files
    from edgekit.graph.onnx_file import write_model
    from edgekit.pipeline import Walk
    from edgekit.quantizer import BudgetError, QuantizationRequest
    from edgekit.stages.fix_shapes import FixShapes
    from edgekit.stages.load import Load
    from edgekit.stages.quantize import NONE, require_scheme
    from edgekit.stages.simplify import Simplify

    if scheme == NONE:
        raise InputError("would leave the model as it is", subject=f"--scheme {NONE}")
    reasons = {} if target is None else _refused(target)
    require_scheme(scheme, available=data is not None, refused=reasons, option="--scheme", quantizer=quantizer)
    drop, request = parse_max_drop(max_drop), shapes.request()
    evaluation = search.evaluation(samples=data is not None)
    walk = Walk(console.progress)
    fixed = walk.through(FixShapes(request), walk.through(Load(), model).model).model
    samples = None if data is None else open_data(data, config, fixed)
    simplified = walk.through(Simplify(), fixed).model
    before = simplified.weight_bytes
    with search.executor() as executor:
        asked = QuantizationRequest(
            model=simplified,
            scheme=scheme,
            samples=samples,
            max_drop=drop,
            evaluation=evaluation,
            progress=console.progress.step,
            executor=executor,
        )
        try:
            result = _quantized(console, asked, target, quantizer)
        except BudgetError as error:
            if explain and not console.as_json:  # whose record of the error holds the layers anyway
                found = error.record
                console.show(found, lambda out: print_layers(found, out))
            raise
    write_model(result.model, output)
    record = {
        "output": str(output),
        **result.record,
        "bytes_before": sum(file.stat().st_size for file in model_files(model)),
        "bytes": sum(file.stat().st_size for file in model_files(output)),
        "weight_bytes_before": before,
        "weight_bytes": result.model.weight_bytes,
        "warnings": [*walk.warnings, *result.warnings],
    }
    console.show(record, lambda out: _render(record, out, explain=explain))
    console.note(f"wrote {output}")


def _refused(target: str) -> Mapping[str, str]:
    """The schemes that do not work for a target here, and why."""
    from edgekit.registry import find_profile
    from edgekit.stages.quantize import refused

    plugin, profile = find_profile(target)
    why = f"{plugin.name} stores weights so when it builds: `edgekit package` takes it"
    return {**refused(plugin, profile), **dict.fromkeys(plugin.weight_schemes(profile), why)}


def _quantized(
    console: Console, request: QuantizationRequest, target: str | None, quantizer: str | None
) -> StageResult:
    """The quantized model, for the target where one is named."""
    from edgekit.pipeline import Walk
    from edgekit.registry import find_profile, installed_quantizer
    from edgekit.stages import StageResult
    from edgekit.stages.quantize import Quantize
    from edgekit.target import BuildOptions

    if target is not None:
        stage = Quantize(
            request.scheme,
            *find_profile(target),
            BuildOptions(),
            request.samples,
            request.max_drop,
            request.progress,
            request.evaluation,
            request.executor,
            quantizer,
        )
        return Walk(console.progress).through(stage, request.model)
    with console.progress.stage("quantize"):
        result = installed_quantizer(quantizer).quantize(request)
    for warning in result.record.get("warnings", ()):
        console.warn(warning)
    return StageResult(result.model, result.record)


def _render(record: Mapping[str, Any], out: RichConsole, *, explain: bool) -> None:
    from rich.filesize import decimal

    from edgekit.trade_off import curve_lines

    if explain:
        print_layers(record, out)
    if record.get("curve") and (explain or "reason" in record):
        for line in curve_lines(record["curve"]):
            out.print(line, soft_wrap=True)
        out.print()
    for failure in record.get("failed", ()):
        out.print(f"{failure['candidate']}: {failure['reason']}", soft_wrap=True)
    out.print(f"scheme: {record['scheme']}" + (f" ({record['chosen']})" if "chosen" in record else ""))
    if "reason" in record:
        out.print(f"because: {record['reason']}", soft_wrap=True)
    else:
        out.print(f"measured: {_measured(record)}", soft_wrap=True)
    out.print(f"weights: {decimal(record['weight_bytes_before'])}, now {decimal(record['weight_bytes'])}")
    out.print(f"file: {decimal(record['bytes_before'])}, now {decimal(record['bytes'])}")


def _measured(record: Mapping[str, Any]) -> str:
    """What the quantizer measured of the candidate that it chose."""
    from edgekit.trade_off import value_text

    trial = next((trial for trial in record.get("curve", ()) if trial["candidate"] == record.get("chosen")), None)
    if trial is None:
        return "nothing" if record.get("samples") else "nothing, without samples"
    value, reference = (value_text(trial["metric"], trial[key]) for key in ("value", "float_value"))
    return (
        f"{trial['metric']} {value} (float {reference}), "
        f"SQNR {float(trial['sqnr_db']):.1f} dB, on the samples that it was calibrated on"
    )
