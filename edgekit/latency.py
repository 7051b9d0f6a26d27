"""How long models take, measured in turns so that whatever else the machine does hits all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

WARM_UP_RUNS = 3
TURN_SECONDS = 0.02
"""A turn runs one model for about this long; one that takes longer runs once."""
LEAST_RUNS = 20
QUANTILES = 40
"""A record tells the distribution by so many equal steps from the fastest run to the slowest."""
MOST_SECONDS = 10.0
"""When the measurement ends although :data:`LEAST_RUNS` have not been made; each model has run at least once."""
ENOUGH_SECONDS = 1.5
"""When it ends once they have."""


@dataclass(frozen=True)
class Latency:
    """The times that one model took."""

    milliseconds: tuple[float, ...]

    def percentile(self, percent: float) -> float:
        """The time that ``percent`` of the runs did not exceed, in ms, interpolated between the nearest two."""
        return float(np.percentile(self.milliseconds, percent))

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {
            "runs": len(self.milliseconds),
            **{f"p{percent}_ms": round(self.percentile(percent), 6) for percent in (50, 90, 99)},
            "quantiles_ms": [round(self.percentile(100 * step / QUANTILES), 6) for step in range(QUANTILES + 1)],
        }


def measure_in_turns(
    run: Mapping[str, Callable[[], object]], step: Callable[[str, int, int], None] | None = None
) -> dict[str, Latency]:
    """Times the callables, which take turns; every second round goes in reverse order.

    Each is run :data:`WARM_UP_RUNS` times first. A turn is as many runs as take :data:`TURN_SECONDS`, after one that
    does not count, since the model before has left its own data in the caches.

    Args:
        run: What to time, by name; each call is one run.
        step: Told how many turns are done.

    Returns:
        At least one time for each name.
    """
    turns = {name: max(1, math.ceil(TURN_SECONDS / max(_warm_up(call), 1e-7))) for name, call in run.items()}
    times: dict[str, list[float]] = {name: [] for name in run}
    start, rounds = time.perf_counter(), 0
    while True:
        for name in list(run)[:: -1 if rounds % 2 else 1]:
            times[name].extend(_turn(run[name], turns[name]))
        rounds += 1
        if step is not None:
            step("turn", rounds, 0)
        elapsed = time.perf_counter() - start
        enough = elapsed >= ENOUGH_SECONDS and all(len(runs) >= LEAST_RUNS for runs in times.values())
        if enough or elapsed >= MOST_SECONDS:
            return {name: Latency(tuple(runs)) for name, runs in times.items()}


def _warm_up(call: Callable[[], object]) -> float:
    """Seconds of the last of the first runs; one alone where it takes its time."""
    seconds = 0.0
    for _ in range(WARM_UP_RUNS):
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        if seconds > MOST_SECONDS / LEAST_RUNS:
            break
    return seconds


def _turn(call: Callable[[], object], runs: int) -> list[float]:
    """Milliseconds of each run."""
    if runs > 1:
        call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return times
