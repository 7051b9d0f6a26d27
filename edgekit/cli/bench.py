"""``edgekit bench``: how long a bundle's model takes on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgekit.cli._bundle_options import BundleArgument, DeviceOption, DeviceTimeoutOption, OriginalOption
from edgekit.cli._bundle_view import show_rows, show_table
from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.devices import LOCAL
from edgekit.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from edgekit.bundle_checks.benchmark import Candidate
    from edgekit.bundle_checks.throughput import ThroughputCandidate

AgainstOption = Annotated[
    Path | None,
    typer.Option(
        "--against", metavar="BUNDLE", help="A second bundle, measured in turns with the first.", show_default=False
    ),
]

StreamsOption = Annotated[
    str | None,
    typer.Option(
        "--streams",
        metavar="N|auto",
        help="Measure throughput with N inferences at the same time; auto leaves the number to the runtime.",
        show_default=False,
    ),
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        "--batch", metavar="N", help="Measure throughput with N samples in each inference.", show_default=False
    ),
]


InstructionSetsOption = Annotated[
    str | None,
    typer.Option(
        "--isa",
        metavar="NAMES",
        help="Measure with each of these instruction sets of this processor, too: avx2,avx512,vnni,amx.",
        show_default=False,
    ),
]


@command(
    "edgekit bench model-intel-cpu --model model.onnx",
    "edgekit bench model-int8 --against model-float --streams auto --batch 4",
    "edgekit bench model-intel-cpu --isa avx2,avx512",
)
def bench(
    console: Console,
    bundle: BundleArgument,
    *,
    against: AgainstOption = None,
    model: OriginalOption = None,
    device: DeviceOption = LOCAL,
    device_timeout: DeviceTimeoutOption = None,
    isa: InstructionSetsOption = None,
    streams: StreamsOption = None,
    batch: BatchOption = None,
) -> None:
    """Measure a bundle's latency, memory or throughput.

    The bundle takes turns with another bundle or with the original model, so that other work of the machine affects all
    of them alike. Each is warmed up, then runs the first golden sample on one thread. The original is executed by the
    reference, on this machine only. If a stand-in executes the bundle instead of the device's own runtime, its times do
    not count. A runtime that is set to another precision than its default is measured with its default, too. --isa
    measures with each of these instruction sets, as on older processors.

    --streams and --batch measure throughput instead: how many samples are completed in a second by inferences that run
    at the same time, on all processors.
    """
    from edgekit import api

    if streams is not None or batch is not None:
        if model is not None:
            raise InputError("throughput is measured of bundles alone", subject="--model", hint="leave it out")
        if isa is not None:
            raise InputError("is for latency", subject="--isa", expected="no --streams and no --batch")
        measured = api.throughput(
            bundle,
            against=against,
            streams="auto" if streams is None else streams,
            batch=1 if batch is None else batch,
            device=device,
            device_timeout=device_timeout,
            progress=console.progress,
        )
        record = {"device": device, "candidates": [candidate.as_record(measured[0]) for candidate in measured]}
        console.show(record, partial(_show_throughput, measured))
        return

    candidates = api.bench(
        bundle,
        against=against,
        model=model,
        device=device,
        device_timeout=device_timeout,
        isa=isa,
        progress=console.progress,
    )
    first = candidates[0]
    record = {"device": device, "candidates": [candidate.as_record(first) for candidate in candidates]}
    console.show(record, partial(_show, candidates))
    for candidate in candidates:
        if not candidate.of_device:
            console.warn(f"{candidate.name} was executed by a stand-in: its time says nothing about the device")


_THROUGHPUT_HEAD = ("model", "samples a second", "of the first", "P50 in ms", "P99", "load", "memory")


def _show_throughput(candidates: Sequence[ThroughputCandidate], out: RichConsole) -> None:
    first = candidates[0]
    show_table(_THROUGHPUT_HEAD, (_throughput_row(candidate, first) for candidate in candidates), out)
    show_rows([(candidate.name, f"{candidate.executed_by}, {_load(candidate)}") for candidate in candidates], out)


def _throughput_row(candidate: ThroughputCandidate, first: ThroughputCandidate) -> tuple[str, ...]:
    from edgekit.units import bytes_text

    ratio = "1" if candidate is first else _with_interval(candidate.ratio_to(first), candidate.ratio_interval_to(first))
    last = candidate.turns[-1]
    return (
        candidate.name,
        _with_interval(candidate.samples_per_second, candidate.interval),
        ratio,
        *(_three_digits(candidate.latency.percentile(percent)) for percent in (50, 99)),
        f"{_three_digits(last.load_ms)} ms",
        "" if last.peak_memory is None else bytes_text(last.peak_memory),
    )


def _load(candidate: ThroughputCandidate) -> str:
    requests = int(candidate.turns[-1].settings["requests"])
    inferences = sum(len(turn.milliseconds) for turn in candidate.turns)
    samples = f"{candidate.batch} sample{'s' if candidate.batch != 1 else ''}"
    return f"{requests} at once, {samples} each, {inferences} inferences"


_HEAD = ("model", "P50 in ms", "P90", "P99", "of the first", "load", "memory")


def _show(candidates: Sequence[Candidate], out: RichConsole) -> None:
    first = candidates[0]
    show_table(_HEAD, (_row(candidate, first) for candidate in candidates), out)
    show_rows([(candidate.name, f"{candidate.executed_by}, {_runs(candidate)}") for candidate in candidates], out)


def _row(candidate: Candidate, first: Candidate) -> tuple[str, ...]:
    from edgekit.units import bytes_text

    ratio = "1" if candidate is first else _with_interval(candidate.ratio_to(first), candidate.ratio_interval_to(first))
    return (
        candidate.name,
        _with_interval(candidate.latency.percentile(50), candidate.interval),
        *(_three_digits(candidate.latency.percentile(percent)) for percent in (90, 99)),
        ratio,
        f"{_three_digits(candidate.load_ms)} ms",
        "" if candidate.peak_memory is None else bytes_text(candidate.peak_memory),
    )


def _with_interval(value: float, interval: tuple[float, float] | None) -> str:
    """A figure with its 95 % confidence interval, if there is one."""
    if interval is None:
        return _three_digits(value)
    return f"{_three_digits(value)} [{' – '.join(_three_digits(end) for end in interval)}]"


def _three_digits(value: float) -> str:
    from edgekit.units import milliseconds_text

    return milliseconds_text(value)


def _runs(candidate: Candidate) -> str:
    count = len(candidate.latency.milliseconds)
    return f"{count} run{'s' if count != 1 else ''}"
