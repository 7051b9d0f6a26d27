"""Judges what a bundle costs on a device: milliseconds of a run, of the first run and of loading, and memory.

Each start of the bundle is one observation, since all runs of one process depend on how that process happened to start.
The interval between two of the ordered observations contains the median of all starts with at least 95 % confidence
(H. A. David and H. N. Nagaraja, Order Statistics, 2003, section 7.1). At least six starts are needed to prove anything,
and more are made until the answer is clear. Six are made whatever the time limit, since a device that starts slowly
would otherwise pass with every budget broken.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from edgekit.bundle import Bundle
from edgekit.config import Budget
from edgekit.device import Device, Session
from edgekit.devices.results import ResultsDevice
from edgekit.model import Arrays
from edgekit.progress import Step
from edgekit.quality_gate.verdict import Figure, Outcome, Verdict, verdict_on
from edgekit.units import bytes_text, milliseconds_text

LEAST_STARTS = 6
"""The least number of starts: with fewer, even the least and the greatest value enclose the median in less than 95 % of
all cases."""
WARM_UP_RUNS = 3
TURN_SECONDS = 0.1
"""About how long the runs of one start take, after the first run and the warm-up."""
STAND_IN = "not measured: a stand-in for the device executes the bundle"
NOT_TOLD = "not measured: the device does not report it"

Text = Callable[[float], str]


@dataclass(frozen=True)
class _Limit:
    """One budget on the device."""

    budget: str
    key: str
    """The budget's key in the project file."""
    unit: str
    most: float
    text: Text

    def figure(self, value: float | None = None, bounds: tuple[float, float] | None = None) -> Figure:
        """What was found, as numbers."""
        return Figure(self.key, self.unit, self.most, value, *(bounds or (None, None)))


@dataclass
class _Starts:
    """What was observed, a value for each start; a list is empty if the device does not report the figure."""

    latency: list[float] = field(default_factory=list)
    first_run: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    count: int = 0

    def add(self, session: Session, feeds: Arrays) -> None:
        """Adds one start: its first run, and the median of the runs after the warm-up."""
        first = session.time(feeds, 1, 0)
        runs = max(1, min(1000, math.ceil(TURN_SECONDS * 1e3 / max(first.milliseconds[0], 1e-3))))
        timing = session.time(feeds, runs, WARM_UP_RUNS)
        self.first_run.append(first.milliseconds[0])
        self.latency.append(median(timing.milliseconds))
        self.load.append(timing.load_ms)
        if timing.peak_memory is not None:
            self.memory.append(float(timing.peak_memory))
        self.count += 1

    def add_recorded(self, session: Session, feeds: Arrays) -> None:
        """Adds the results of a device that cannot be reached from here: a run for each golden sample, and one load."""
        timing = session.time(feeds, 1, 0)
        self.latency.append(median(timing.milliseconds))
        self.load.append(timing.load_ms)
        self.count += 1


@dataclass(frozen=True)
class DeviceClock:
    """Where milliseconds and memory are measured, and for how long."""

    device: Device
    called: str
    """How the verdicts name the device: its URL."""
    seconds: float
    """When measuring ends although the answer is not clear, once :data:`LEAST_STARTS` are done."""
    step: Step | None = None


def judge_on_device(bundle: Bundle, budget: Budget, clock: DeviceClock) -> Iterator[Verdict]:
    """A verdict for each limit in milliseconds or bytes of memory, on the first golden sample.

    Raises:
        InputError: The device cannot be reached.
        RequirementError: The device cannot run the bundle.
    """
    limits = _limits(budget)
    if not limits:
        return
    starts = _observe(bundle, limits, clock)
    for key, limit in limits.items():
        name, most = f"{limit.budget} on {clock.called}", f"at most {limit.text(limit.most)}"
        if starts is None:
            yield verdict_on(name, most, STAND_IN, False, limit.figure())
            continue
        values = getattr(starts, key)
        if not values:
            yield verdict_on(name, most, NOT_TOLD, False, limit.figure())
            continue
        middle = median(values)
        found, times = limit.text(middle), f"{len(values)} start{'s' if len(values) != 1 else ''}"
        if _is_recorded(clock.device):
            yield verdict_on(name, most, f"{found}, recorded", values[0] <= limit.most, limit.figure(middle))
            continue
        bounds = median_bounds(values)
        between = "" if bounds is None else f" ({limit.text(bounds[0])} – {limit.text(bounds[1])})"
        text = f"{found}{between}, {times}"
        yield Verdict(name, most, text, _outcome(bounds, limit.most), limit.figure(middle, bounds))


def median_bounds(values: Sequence[float]) -> tuple[float, float] | None:
    """Two of the values that enclose their distribution's median with at least 95 % confidence; None for fewer than 6.

    With k - 1 values outside on either side, the confidence is 1 - 2 · P(Binomial(n, 1/2) < k).
    """
    ordered, count = sorted(values), len(values)
    below, outside = 0, 1
    while 2 * outside / 2**count <= 0.05:
        below += 1
        outside += math.comb(count, below)
    return (ordered[below - 1], ordered[count - below]) if below else None


def _observe(bundle: Bundle, limits: Mapping[str, _Limit], clock: DeviceClock) -> _Starts | None:
    """Starts the bundle until every limit is decided or the time is over; None if a stand-in executes it."""
    feeds, _ = next(bundle.golden())
    starts, begin = _Starts(), time.perf_counter()
    next_look = LEAST_STARTS
    while True:
        with clock.device.open(bundle) as session:
            if session.is_stand_in:
                return None
            if _is_recorded(clock.device):
                starts.add_recorded(session, feeds)
                return starts
            starts.add(session, feeds)
        if clock.step is not None:
            clock.step(f"start on {clock.called}", starts.count, 0)
        if starts.count >= LEAST_STARTS and time.perf_counter() - begin >= clock.seconds:
            return starts
        if starts.count >= next_look:
            next_look *= 2  # each look may be wrong, so there are few
            if all(_settled(getattr(starts, key), limit.most) for key, limit in limits.items()):
                return starts


def _settled(values: Sequence[float], most: float) -> bool:
    return not values or _outcome(median_bounds(values), most) is not Outcome.INCONCLUSIVE


def _outcome(bounds: tuple[float, float] | None, most: float) -> Outcome:
    if bounds is None or bounds[0] <= most < bounds[1]:
        return Outcome.INCONCLUSIVE
    return Outcome.KEPT if bounds[1] <= most else Outcome.BROKEN


def _limits(budget: Budget) -> dict[str, _Limit]:
    """The limits that the budget sets, by the names of the fields of :class:`_Starts`."""
    asked = {
        "latency": ("latency", "latency_ms", "ms", budget.latency_ms, _milliseconds),
        "first_run": ("first run", "first_run_ms", "ms", budget.first_run_ms, _milliseconds),
        "load": ("load time", "load_ms", "ms", budget.load_ms, _milliseconds),
        "memory": ("memory", "memory", "bytes", budget.memory, _bytes),
    }
    return {
        name: _Limit(budget, key, unit, most, text)
        for name, (budget, key, unit, most, text) in asked.items()
        if most is not None
    }


def _is_recorded(device: Device) -> bool:
    return isinstance(device, ResultsDevice)


def _milliseconds(value: float) -> str:
    return f"{milliseconds_text(value)} ms"


def _bytes(value: float) -> str:
    return bytes_text(round(value))
