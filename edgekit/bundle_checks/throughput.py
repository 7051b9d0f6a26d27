"""Measures the throughput of bundles when several inferences run at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from edgekit.bundle import Bundle, check_integrity
from edgekit.device import Device, Session, Throughput
from edgekit.devices.local import LocalDevice
from edgekit.devices.service_session import ModelFailedError
from edgekit.errors import InputError, RequirementError
from edgekit.model import Arrays
from edgekit.progress import Step
from edgekit.registry import canonical_of, find_profile
from edgekit.timing.latency import Interval, Latency, median_interval, ratio_interval

TURN_SECONDS = 0.5
"""Seconds for which a turn keeps one model busy."""
TURNS = 8
WARM_UP_SECONDS = 0.2
MOST_STREAMS = 1024
"""Largest number of streams: each takes at least one thread, and no device has more processors than this."""
SAME = 1e-3
"""Rows of a batch of equal samples may differ by this share of the largest number, since sums are added in another
order."""


@dataclass(frozen=True)
class ThroughputCandidate:
    """One of the models that were measured."""

    name: str
    executed_by: str
    batch: int
    """Samples in each inference."""
    turns: tuple[Throughput, ...]

    @cached_property
    def times(self) -> Latency:
        """Milliseconds per sample, one figure per turn: the turn's time over the number of samples processed in it."""
        return Latency(tuple(turn.elapsed_ms / (len(turn.milliseconds) * self.batch) for turn in self.turns))

    @property
    def samples_per_second(self) -> float:
        """Samples processed per second, by the median of the turns."""
        return 1e3 / self.times.percentile(50)

    @property
    def interval(self) -> Interval | None:
        """The 95 % confidence interval of the samples per second; None after too few turns."""
        return _inverse(median_interval(self.times), 1e3)

    def ratio_to(self, first: ThroughputCandidate) -> float:
        """This candidate's samples per second over those of the first one; above 1 is faster."""
        return self.samples_per_second / first.samples_per_second

    def ratio_interval_to(self, first: ThroughputCandidate) -> Interval | None:
        """The 95 % confidence interval of the ratio to the first candidate; None after too few turns."""
        return _inverse(ratio_interval(self.times, first.times), 1.0)

    @property
    def latency(self) -> Latency:
        """The latency of each inference while the others ran."""
        return Latency(tuple(one for turn in self.turns for one in turn.milliseconds))

    def as_record(self, first: ThroughputCandidate) -> dict[str, Any]:
        """Plain data for ``--json``."""
        last = self.turns[-1]
        return {
            "name": self.name,
            "executed_by": self.executed_by,
            "of_device": True,
            "settings": dict(last.settings),
            "batch": self.batch,
            "inferences_per_second": self.samples_per_second / self.batch,
            "samples_per_second": self.samples_per_second,
            "samples_per_second_interval": self.interval,
            "ratio_to_first": self.ratio_to(first),
            "ratio_interval": self.ratio_interval_to(first),
            **self.latency.as_record(),
            "load_ms": last.load_ms,
            "peak_memory": last.peak_memory,
        }


def bench_throughput(
    bundle: Bundle,
    against: Bundle | None = None,
    streams: int | None = None,
    batch: int = 1,
    step: Step | None = None,
    device: Device | None = None,
) -> list[ThroughputCandidate]:
    """Measures bundles in turns, each kept busy with ``streams`` inferences at the same time.

    Each inference is of the first golden sample, which is repeated N times in a batch of N.

    Args:
        bundle: The bundle.
        against: A second bundle.
        streams: How many inferences run at the same time; None for the runtime's own choice.
        batch: Samples in each inference.
        step: Called after each round of turns.
        device: The device that executes the bundles; None for this machine.

    Returns:
        The bundle first, then ``against``.

    Raises:
        RequirementError: A bundle's files are changed, its model computes something else in a batch, or the device
            cannot run it.
        InputError: Both bundles are the same one, a bundle takes no batches or keeps states, or the device runs one
            inference after another.
    """
    where = device or LocalDevice()
    if against is not None and against.path.resolve() == bundle.path.resolve():
        raise InputError("is the bundle itself", subject="--against", found=against.path)
    with ExitStack() as opened:
        sessions: dict[str, tuple[Session, Arrays]] = {}
        for one in (bundle,) if against is None else (bundle, against):
            check_integrity(one, canonical_of(one.profile_name))
            _require_batches(one, batch)
            inputs, _ = next(one.golden())
            feeds = {name: np.concatenate([array] * batch) if array.ndim else array for name, array in inputs.items()}
            try:
                session = opened.enter_context(where.open_for_throughput(one, streams, batch))
                outputs = session.run(feeds)
            except ModelFailedError as error:
                raise error if batch == 1 else _not_in_batches(one, batch, feeds, error) from error
            _require_rows(outputs, batch, one)
            sessions[str(one.path)] = session, feeds
        turns = _in_turns(sessions, step)
        return [
            ThroughputCandidate(name, session.executed_by, batch, tuple(turns[name]))
            for name, (session, _) in sessions.items()
        ]


def _in_turns(sessions: Mapping[str, tuple[Session, Arrays]], step: Step | None) -> dict[str, list[Throughput]]:
    """The results of :data:`TURNS` turns of each session; every second round goes in reverse order."""
    for session, feeds in sessions.values():
        session.throughput(feeds, WARM_UP_SECONDS)
    turns: dict[str, list[Throughput]] = {name: [] for name in sessions}
    for number in range(TURNS):
        for name in list(sessions)[:: -1 if number % 2 else 1]:
            session, feeds = sessions[name]
            turns[name].append(session.throughput(feeds, TURN_SECONDS))
        if step is not None:
            step("turn", number + 1, TURNS)
    return turns


def _not_in_batches(bundle: Bundle, batch: int, feeds: Arrays, error: ModelFailedError) -> RequirementError:
    """The error for a model that does not run on ``batch`` samples at once."""
    given = ", ".join(f"{name} {'×'.join(map(str, array.shape))}" for name, array in feeds.items() if array.ndim)
    return RequirementError(
        f"the model does not run on {batch} samples beside one another in the first dimension of inputs: {given}",
        subject=bundle.path,
        found=error.found,
        hint="an input may count samples in another dimension, as states of recurrent layers do, or a node may hold "
        "the size 1 that --dim gave: package with --dim NAME=1..8, or leave --batch out",
    )


def _require_batches(bundle: Bundle, batch: int) -> None:
    """Refuses a bundle that cannot run ``batch`` samples at once.

    Raises:
        InputError: The model keeps states, or has a fixed batch size that its target does not change.
    """
    if bundle.states:
        raise InputError(
            "a model that keeps states computes one sample after another", subject=bundle.path, found="--streams"
        )
    target, profile = find_profile(bundle.profile_name)
    fixed = [feature.name for feature in bundle.inputs if feature.shape and isinstance(feature.shape[0], int)]
    if batch > 1 and fixed and not target.takes_batches(profile):
        raise InputError(
            f"the model's input {fixed[0]!r} is fixed to one size, and {profile.name} runs it as it is",
            subject=f"--batch {batch}",
            expected="an open first dimension",
            found=bundle.path,
            hint=f"package it with the batch left open: `--dim NAME=1..{batch}`",
        )


def _require_rows(outputs: Arrays, batch: int, bundle: Bundle) -> None:
    """Checks that a model computes the same output for each of ``batch`` equal samples.

    Raises:
        RequirementError: An output has another shape, or differs between the samples.
    """
    _, golden = next(bundle.golden())
    for name, one in golden.items():
        found = outputs[name]
        wanted = (one.shape[0] * batch, *one.shape[1:]) if one.ndim else one.shape
        if found.shape != wanted:
            raise RequirementError(
                f"the output {name!r} does not have the shape for {batch} samples",
                subject=bundle.path,
                expected=f"shape {wanted}",
                found=f"shape {found.shape}",
                hint="the model does not compute in batches; leave --batch out",
            )
        if batch == 1 or not one.ndim or found.dtype.kind != "f":
            continue
        rows = found.reshape(batch, -1).astype(np.float64)
        apart = float(np.abs(rows - rows[0]).max(initial=0.0))
        if apart > SAME * float(np.abs(rows[0]).max(initial=0.0)):
            raise RequirementError(
                f"the output {name!r} differs between {batch} equal samples",
                subject=bundle.path,
                found=f"numbers that are {apart:.3g} apart",
                hint="the model mixes the samples of a batch; leave --batch out",
            )


def _inverse(interval: Interval | None, over: float) -> Interval | None:
    return None if interval is None else (over / interval[1], over / interval[0])
