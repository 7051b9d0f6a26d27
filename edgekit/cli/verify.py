"""``edgekit verify``: whether a bundle still is what it was, and how accurate it is on further data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from edgekit.cli._bundle_options import (
    BundleArgument,
    DataConfigOption,
    DeviceOption,
    DeviceTimeoutOption,
    InstructionSetsOption,
    OriginalOption,
    ResultsOption,
    SignersOption,
)
from edgekit.cli._bundle_view import show_rows, show_table
from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.cli._options import DataOption, LabelOption
from edgekit.devices import LOCAL

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from edgekit.bundle_checks.verification import Verification
    from edgekit.comparison.numbers.metrics import OutputAccuracy
    from edgekit.diagnosis.divergence import Divergence, Layer
    from edgekit.diagnosis.witness_report import WitnessReport

LayersOption = Annotated[
    bool, typer.Option("--layers", help="Compare intermediate values too, and name the first that diverges.")
]
WitnessOption = Annotated[
    str | None,
    typer.Option(
        "--witness",
        metavar="NAME",
        help="Have a second runtime execute the golden samples, too, and name the first operation that differs.",
        show_default=False,
    ),
]


@command("edgekit verify model-ios18", "edgekit verify model-intel-cpu --data test-samples --model model.onnx")
def verify(
    console: Console,
    bundle: BundleArgument,
    *,
    data: DataOption = None,
    label: LabelOption = None,
    model: OriginalOption = None,
    config: DataConfigOption = None,
    device: DeviceOption = LOCAL,
    device_timeout: DeviceTimeoutOption = None,
    isa: InstructionSetsOption = None,
    layers: LayersOption = False,
    results: ResultsOption = None,
    signers: SignersOption = None,
    witness: WitnessOption = None,
) -> None:
    """Verify a bundle's files, golden outputs and accuracy.

    Each file is compared with its SHA-256 sum. The bundle runs on its golden inputs, and its outputs have to be close
    enough to the golden outputs. With --data the accuracy is measured on more samples. With --model the bundle is
    compared with the original on them, and no labels are needed; without it the share of labels found is shown.

    --layers also compares intermediate values, with those of the model that --model names, or of the graph that the
    bundle ships. With --isa the bundle has to be accurate with each of the instruction sets that this processor, or an
    emulator, executes.
    """
    from edgekit import api
    from edgekit.bundle import read_bundle
    from edgekit.devices.instruction_set import SCHEME, CannotExecuteError, known_sets
    from edgekit.diagnosis.divergence import DivergedError
    from edgekit.errors import InputError
    from edgekit.signature import check_signature

    if isa is not None and (results is not None or device != LOCAL):
        raise InputError("is for this machine", subject="--isa", expected="no --device and no --results")
    opened = read_bundle(bundle)
    signer = None if signers is None else check_signature(opened, signers)
    found: dict[str, Verification] = {}
    missing: list[str] = []
    for name in [device] if isa is None else [f"{SCHEME}:{name}" for name in known_sets(isa)]:
        try:
            found[name] = api.verify(
                opened,
                data=data,
                label=label,
                model=model,
                config=config,
                device=name,
                device_timeout=device_timeout,
                layers=layers,
                results=results,
                witness=witness,
                progress=console.progress,
            )
        except CannotExecuteError as error:
            if isa is None:
                raise
            console.warn(str(error))
            missing.append(name)
        except DivergedError as error:
            if not console.as_json:  # with --json, the error's record holds them
                console.show({}, partial(_show_layers, error.divergence))
            raise
    if not found:
        raise InputError(
            "neither this processor nor an emulator here executes the bundle with any of these instruction sets",
            subject=f"--isa {isa}",
        )
    verification = next(iter(found.values()))
    record = {"bundle": str(bundle), "device": device if results is None else str(results), **verification.as_record()}
    if isa is not None:
        sets = {name.removeprefix("isa:"): each.as_record() for name, each in found.items()}
        record |= {"instruction_sets": sets, "missing_instruction_sets": [n.removeprefix("isa:") for n in missing]}
    if signer is not None:
        record["signed_by"] = signer
    console.show(record, partial(_show, [*found.values()], len(opened.manifest["files"]), signer))


def _show(verifications: Sequence[Verification], files: int, signer: str | None, out: RichConsole) -> None:
    if signer is not None:
        show_rows([("signed by", signer)], out)
    for verification in verifications:
        show_rows([("files", f"{files}, all as they were written"), *_rows(verification)], out)
        if verification.divergence is not None:
            _show_layers(verification.divergence, out)
        for profile, further in verification.further.items():
            show_rows([("also for", profile), *_rows(further)], out)
            if further.divergence is not None:
                _show_layers(further.divergence, out)


def _show_layers(divergence: Divergence, out: RichConsole) -> None:
    """Prints every layer that was compared; the first that diverges is marked."""
    from edgekit.units import decibel_text

    def row(layer: Layer) -> tuple[str, ...]:
        how = f"{layer.mismatch:.1%} unequal" if layer.sqnr_db is None else decibel_text(layer.sqnr_db)
        verdict = "ok" if layer.is_near else "recovers" if layer.recovers else "diverges"
        if layer.floor_db != divergence.floor_db:
            verdict += f" (at least {decibel_text(layer.floor_db)})"
        return (
            layer.value,
            layer.op_type,
            layer.node,
            how,
            f"{verdict} ← first" if layer is divergence.first else verdict,
        )

    head = ("value", "operator", "node", "against the reference", "")
    show_table(head, map(row, divergence.layers), out, untitled="verdict")
    floors = f"{divergence.floor_db:g} dB, {divergence.max_mismatch:.0%} unequal"
    rows = [("reference", divergence.reference), ("floors", floors), ("first diverging", divergence.summary)]
    if divergence.not_shown:
        rows.append(
            (
                "not compared",
                f"{divergence.not_shown} values that the built model does not have, or that are too large",
            )
        )
    show_rows(rows, out)


def _witness_rows(witness_report: WitnessReport) -> list[tuple[str, str]]:
    from edgekit.units import decibel_text

    def text(output: OutputAccuracy) -> str:
        return f"{output.mismatch:.2%} unequal" if output.sqnr_db is None else f"SQNR {decibel_text(output.sqnr_db)}"

    rows = [("witness", witness_report.executed_by)]
    for original, runtime in zip(witness_report.original, witness_report.runtime, strict=True):
        rows.append((f"witness {original.name}", f"{text(original)}; against this runtime {text(runtime)}"))
    if witness_report.parting is not None:
        rows.append(("the runtimes part", str(witness_report.parting)))
    return rows


def _rows(verification: Verification) -> list[tuple[str, str]]:
    from edgekit.reporting.accuracy_texts import (
        class_texts,
        data_text,
        meaning_text,
        padding_texts,
        sizes_texts,
        task_text,
        worst_output_text,
    )
    from edgekit.reporting.summary import fed_back_text
    from edgekit.units import decibel_text

    rows = [("executed by", verification.executed_by)]
    for output in verification.golden:
        text = f"{output.mismatch:.2%} unequal" if output.sqnr_db is None else f"SQNR {decibel_text(output.sqnr_db)}"
        rows.append((f"golden {output.name}", text))
    if verification.witness_report is not None:
        rows += _witness_rows(verification.witness_report)
    if verification.accuracy is not None:
        record = verification.accuracy.as_record()
        rows += [("compared on", data_text(record)), ("worst output", worst_output_text(record))]
        if record["task"] is not None:
            rows.append(("accuracy", task_text(record)))
        if record["meaning"] is not None:
            rows.append((record["meaning"]["kind"], meaning_text(record["meaning"])))
        rows += [("classes", text) for text in class_texts(record)]
        rows += [("at sizes", text) for text in sizes_texts(record)]
        rows += [("not judged", text) for text in padding_texts(record)]
    if verification.fed_back is not None:
        rows.append(("fed back", fed_back_text(verification.fed_back.as_record())))
    if verification.labels is not None:
        labels = verification.labels
        beside = (
            ""
            if labels.packaged_reference is None
            else f"; the original found {labels.packaged_reference:.2%} of those it was packaged with"
        )
        rows.append(("accuracy", f"{labels.built:.2%} of {labels.samples} labels found{beside}"))
    return rows
