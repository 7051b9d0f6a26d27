"""Measures bundles beside one another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from edgekit.bundle import Bundle, check_integrity
from edgekit.devices.device import Device
from edgekit.devices.local import LocalDevice
from edgekit.errors import InputError
from edgekit.latency import Latency, measure_in_turns
from edgekit.quantizer import Progress
from edgekit.reference import Reference
from edgekit.verification import original_of


@dataclass(frozen=True)
class Candidate:
    """One of the models that were measured."""

    name: str
    executed_by: str
    of_device: bool
    """Whether the device's own runtime executed it."""
    latency: Latency

    def ratio_to(self, first: Candidate) -> float:
        """Its P50 over that of the first one; above 1 is slower."""
        return self.latency.percentile(50) / first.latency.percentile(50)

    def as_record(self, first: Candidate) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "name": self.name,
            "executed_by": self.executed_by,
            "of_device": self.of_device,
            **self.latency.as_record(),
            "ratio_to_first": self.ratio_to(first),
        }


def bench_bundle(
    bundle: Bundle,
    against: Bundle | None = None,
    model: Path | None = None,
    step: Progress | None = None,
    device: Device | None = None,
) -> list[Candidate]:
    """Measures a bundle in turns with what it is compared to.

    Args:
        bundle: The bundle.
        against: A second one.
        model: The original, executed by ONNX Runtime.
        step: Told of the turns.
        device: What executes the bundles; this machine where nothing is given.

    Returns:
        The bundle first, then the others.

    Raises:
        RequirementError: A bundle's files are changed.
        InputError: ``model`` is not the bundle's original, or both bundles are the same one.
    """
    bundles = [bundle] if against is None else [bundle, against]
    if against is not None and against.path.resolve() == bundle.path.resolve():
        raise InputError("is the bundle itself", subject="--against", found=against.path)
    runs: dict[str, Callable[[], object]] = {}
    known: dict[str, tuple[str, bool]] = {}
    with ExitStack() as opened:
        for one in bundles:
            check_integrity(one)
            session, name = opened.enter_context((device or LocalDevice()).open(one)), str(one.path)
            runs[name] = partial(session.run, _feeds(one))
            known[name] = session.executed_by, bool(one.manifest["target"]["runs_here"])
        if model is not None:
            reference = Reference(original_of(bundle, model), fast=True)
            runs[str(model)] = partial(reference.run, _feeds(bundle))
            known[str(model)] = reference.executed_by, True
        times = measure_in_turns(runs, step)
    return [Candidate(name, *known[name], times[name]) for name in runs]


def _feeds(bundle: Bundle) -> Any:
    """The inputs of the first golden sample."""
    inputs, _ = next(bundle.golden())
    return inputs
