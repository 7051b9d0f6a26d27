"""``edgekit bench``: how long a bundle's model takes on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgekit.cli._bundle_options import BundleArgument, DeviceOption, OriginalOption
from edgekit.cli._bundle_view import show_table
from edgekit.cli._command import command
from edgekit.cli._console import Console
from edgekit.devices.opening import LOCAL

if TYPE_CHECKING:
    from edgekit.benchmark import Candidate

AgainstOption = Annotated[
    Path | None,
    typer.Option("--against", metavar="BUNDLE", help="A second bundle, measured in turns.", show_default=False),
]


@command("edgekit bench model-intel-cpu --model model.onnx", "edgekit bench model-int8 --against model-float --json")
def bench(
    console: Console,
    bundle: BundleArgument,
    *,
    against: AgainstOption = None,
    model: OriginalOption = None,
    device: DeviceOption = LOCAL,
) -> None:
    """Measure a bundle's latency on this machine.

    It is measured in turns with another bundle or with the original model, so that what else the machine does hits all
    of them; each is warmed up. The original is executed by ONNX Runtime with its optimizations. Times are those of the
    first golden sample, on one thread; a stand-in for the device's own runtime may use more, and its times do not
    count.
    """
    from edgekit.benchmark import bench_bundle
    from edgekit.bundle import read_bundle
    from edgekit.devices.opening import open_device

    where = open_device(device)
    opened, other = read_bundle(bundle), None if against is None else read_bundle(against)
    with console.progress.stage("bench"):
        candidates = bench_bundle(opened, other, model, console.progress.step, where)
    first = candidates[0]
    record = {"device": device, "candidates": [candidate.as_record(first) for candidate in candidates]}
    console.show(record, lambda out: show_table(_HEAD, (_row(candidate, first) for candidate in candidates), out))
    for candidate in candidates:
        if not candidate.of_device:
            console.warn(f"{candidate.name} was executed by a stand-in: its time says nothing about the device")


_HEAD = ("model", "P50", "P90", "P99", "runs", "of the first", "executed by")


def _row(candidate: Candidate, first: Candidate) -> tuple[str, ...]:
    times = (f"{candidate.latency.percentile(percent):.3g} ms" for percent in (50, 90, 99))
    runs = str(len(candidate.latency.milliseconds))
    return candidate.name, *times, runs, f"{candidate.ratio_to(first):.2f}", candidate.executed_by
