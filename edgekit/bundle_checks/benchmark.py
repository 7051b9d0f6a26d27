"""Measures the latency, load time and memory of bundles in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgekit.bundle import Bundle, check_integrity
from edgekit.bundle_checks.original import open_original
from edgekit.device import Device, Session, Timing
from edgekit.devices.instruction_set import InstructionSetDevice, cannot_execute, held_here
from edgekit.devices.local import LocalDevice
from edgekit.errors import InputError, RequirementError
from edgekit.files.regular_file import real_path
from edgekit.model import Arrays
from edgekit.progress import Step
from edgekit.registry import canonical_of, find_profile
from edgekit.timing.latency import (
    MOST_SECONDS,
    STAND_IN_SECONDS,
    Interval,
    Latency,
    median_interval,
    ratio_interval,
    time_in_turns,
)


@dataclass(frozen=True)
class Candidate:
    """One of the models that were measured."""

    name: str
    executed_by: str
    of_device: bool
    """Whether the device's own runtime executed the model, on the device."""
    latency: Latency
    load_ms: float
    """From the model's file to a session that is ready."""
    peak_memory: int | None
    """Most bytes that the executing process had in memory; None if the device does not report it."""
    settings: Mapping[str, str]
    """The settings that were fixed, such as threads and precision."""

    @property
    def interval(self) -> Interval | None:
        """The 95 % confidence interval of the median, in ms; None after too few turns."""
        return median_interval(self.latency)

    def ratio_to(self, first: Candidate) -> float:
        """This candidate's P50 over that of the first one; above 1 is slower."""
        return self.latency.percentile(50) / first.latency.percentile(50)

    def ratio_interval_to(self, first: Candidate) -> Interval | None:
        """The 95 % confidence interval of the ratio to the first candidate; None after too few turns."""
        return ratio_interval(self.latency, first.latency)

    def as_record(self, first: Candidate) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "name": self.name,
            "executed_by": self.executed_by,
            "of_device": self.of_device,
            "settings": dict(self.settings),
            **self.latency.as_record(),
            "p50_interval_ms": self.interval,
            "ratio_to_first": self.ratio_to(first),
            "ratio_interval": self.ratio_interval_to(first),
            "load_ms": self.load_ms,
            "peak_memory": self.peak_memory,
        }


def bench_bundle(
    bundle: Bundle,
    against: Bundle | None = None,
    model: Path | None = None,
    step: Step | None = None,
    device: Device | None = None,
    warn: Callable[[str], None] | None = None,
    sets: Sequence[str] = (),
) -> list[Candidate]:
    """Measures a bundle in turns with what it is compared to.

    If a runtime was set to a precision that it would not choose by default, the bundle is also measured in the
    runtime's own choice, if it runs in that precision.

    Args:
        bundle: The bundle.
        against: A second bundle.
        model: The original, executed by ONNX Runtime on this machine.
        step: Called after each turn.
        device: The device that executes the bundles; None for this machine.
        warn: Called for a precision in which a bundle does not run, and for instruction sets that are not measured.
        sets: Instruction sets with which each bundle is measured as well, on this machine. Sets that this processor
            does not execute itself are left out: times of an emulator say nothing.

    Returns:
        The bundle first, then the others.

    Raises:
        RequirementError: A bundle's files are changed, or the device cannot run it.
        InputError: ``model`` is not the bundle's original, both bundles are the same one, the device cannot be
            reached, or this processor executes a bundle with none of ``sets``.
    """
    where = device or LocalDevice()
    if against is not None and real_path(against.path) == real_path(bundle.path):
        raise InputError("is the bundle itself", subject="--against", found=against.path)
    if model is not None and not isinstance(where, LocalDevice):
        raise InputError(
            "the original is measured on this machine only",
            subject="--model",
            hint="package it for the same target with --quantize none, and give that bundle with --against",
        )
    bundles = (bundle,) if against is None else (bundle, against)
    held = [(one, name) for name in sets for one in bundles if _executes(one, name, warn)]
    if sets and not held:
        raise InputError(
            "this processor executes it with none of these instruction sets", subject=f"--isa {','.join(sets)}"
        )
    with ExitStack() as opened:
        clocks: dict[str, _Clock] = {}
        for one in bundles:
            check_integrity(one, canonical_of(one.profile_name))
            session = opened.enter_context(where.open(one))
            clocks[str(one.path)] = _Clock(session, first_feeds(one))
            if session.default_precision is not None:
                name = f"{one.path} in {session.default_precision}"
                try:
                    other = opened.enter_context(where.open_in_default_precision(one))
                    other.time(feeds := first_feeds(one), 1, 0)
                except RequirementError as error:
                    if warn is not None:
                        warn(f"{name} is not measured: {error.message}" + (f": {error.found}" if error.found else ""))
                else:
                    clocks[name] = _Clock(other, feeds)
        for one, name in held:
            session = opened.enter_context(InstructionSetDevice(name).open(one))
            clocks[f"{one.path} with {name}"] = _Clock(session, first_feeds(one))
        if model is not None:
            clocks[str(model)] = _Clock(opened.enter_context(open_original(bundle, model)), first_feeds(bundle))
        stands_in = any(clock.stands_in for clock in clocks.values())
        timers = {name: clock.time for name, clock in clocks.items()}
        times = time_in_turns(timers, step, STAND_IN_SECONDS if stands_in else MOST_SECONDS)
        return [clock.candidate(name, times[name]) for name, clock in clocks.items()]


def _executes(bundle: Bundle, name: str, warn: Callable[[str], None] | None) -> bool:
    """Whether this processor executes a bundle with an instruction set and none beyond it."""
    target, profile = find_profile(bundle.profile_name)
    executes = held_here(target, profile, name) is not None
    if not executes and warn is not None:
        why = cannot_execute(target, profile, name)
        reason = (
            "only an emulator executes it here, and its times say nothing about the processor"
            if why is None
            else str(why.message)
        )
        warn(f"{bundle.path} with {name} is not measured: {reason}")
    return executes


class _Clock:
    """Times one sample in a session, and keeps the load time, memory and settings that the session reports."""

    def __init__(self, session: Session, feeds: Arrays) -> None:
        self._session = session
        self._feeds = feeds
        self._last: Timing | None = None

    @property
    def stands_in(self) -> bool:
        """Whether the times say nothing about the device."""
        return self._session.is_stand_in

    def time(self, runs: int, warm_up: int) -> Sequence[float]:
        self._last = self._session.time(self._feeds, runs, warm_up)
        return self._last.milliseconds

    def candidate(self, name: str, latency: Latency) -> Candidate:
        assert self._last is not None  # it has been timed
        return Candidate(
            name,
            self._session.executed_by,
            not self._session.is_stand_in,
            latency,
            self._last.load_ms,
            self._last.peak_memory,
            self._last.settings,
        )


def first_feeds(bundle: Bundle) -> Arrays:
    """The inputs of the first golden sample."""
    inputs, _ = next(bundle.golden())
    return inputs
