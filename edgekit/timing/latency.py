"""Measures how long models take, in turns, so that other load on the machine affects all of them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from edgekit.errors import InputError

WARM_UP_RUNS = 3
TURN_SECONDS = 0.02
"""The length of a turn, in which one model runs repeatedly; a model that takes longer runs once."""
LEAST_RUNS = 20
QUANTILES = 40
"""The number of steps between the quantiles in a record, from the fastest run to the slowest."""
MOST_SECONDS = 10.0
"""The measurement ends after this time even without :data:`LEAST_RUNS` runs; each model has run at least once."""
ENOUGH_SECONDS = 1.5
"""The measurement ends after this time once :data:`LEAST_RUNS` runs are made.

:data:`SECONDS_VARIABLE` overrides this number.
"""
SECONDS_VARIABLE = "EDGEKIT_MEASURE_SECONDS"
"""The environment variable with the seconds to measure for, also in child processes."""
STAND_IN_SECONDS = 1.0
"""How long a stand-in for a device is measured, whose times say nothing about the device.

A stand-in that takes longer runs once.
"""


LEAST_TURNS = 5
"""The fewest turns that show how much turns differ."""
RESAMPLES = 1000

Interval = tuple[float, float]
Timer = Callable[[int, int], Sequence[float]]
"""A function of the numbers of runs and of warm-up runs that returns the milliseconds of the runs."""


@dataclass(frozen=True)
class Latency:
    """The times that one model took."""

    milliseconds: tuple[float, ...] = field(repr=False)
    runs_a_turn: int = 1
    """The number of runs per turn, made directly one after the other, so under the same load of the machine."""

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

    @property
    def turns(self) -> np.ndarray:
        """The times in ms, one row per turn."""
        return np.asarray(self.milliseconds).reshape(-1, self.runs_a_turn)


def median_interval(latency: Latency, confidence: float = 0.95) -> Interval | None:
    """Returns the confidence interval of the median in ms, by the percentile bootstrap over turns.

    The bootstrap draws turns rather than runs: the runs of one turn are similar, so that they are not independent
    samples. Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and 13.

    Args:
        latency: The measured times.
        confidence: How often such an interval contains the true median.

    Returns:
        The interval, or None if there are fewer than :data:`LEAST_TURNS` turns.
    """
    drawn = _drawn(len(latency.turns))
    return None if drawn is None else _holds(_medians(latency.turns, drawn), confidence)


def ratio_interval(latency: Latency, to: Latency, confidence: float = 0.95) -> Interval | None:
    """Returns the confidence interval of the ratio of two medians of models measured together.

    The bootstrap draws the turns of both models in a round together.

    Raises:
        ValueError: The models had different numbers of turns.
    """
    turns, others = latency.turns, to.turns
    if len(turns) != len(others):
        raise ValueError(f"{len(turns)} and {len(others)} turns were not taken in turns")
    drawn = _drawn(len(turns))
    return None if drawn is None else _holds(_medians(turns, drawn) / _medians(others, drawn), confidence)


def _drawn(turns: int) -> np.ndarray | None:
    """How often each resample draws each turn, one row per resample; None if there are too few turns."""
    if turns < LEAST_TURNS:
        return None
    random = np.random.default_rng(0)  # a fixed seed: the same times give the same interval
    drawn = random.integers(turns, size=(RESAMPLES, turns))
    return np.stack([np.bincount(row, minlength=turns) for row in drawn])


def _medians(turns: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Returns the median time of each resample, equal to :func:`numpy.median` of its times.

    A quick model has 100,000 times, and so has a resample, whose times are therefore not copied. How many of them are
    at most a given time follows from the sorted turns, each counted as often as it was drawn; bisection gives the rest.
    """
    times, ordered = np.unique(turns), np.sort(turns, axis=1)
    half = turns.size // 2
    upper = _least_reaching(half + 1, times, ordered, drawn)
    return upper if turns.size % 2 else (_least_reaching(half, times, ordered, drawn) + upper) / 2


def _least_reaching(count: int, times: np.ndarray, ordered: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Returns for each resample its ``count``-th smallest time.

    Args:
        count: From 1 to the number of times in a resample.
        times: The distinct times of all turns, ascending.
        ordered: The times of each turn, ascending.
        drawn: How often each resample draws each turn, one row per resample.
    """
    low, high = np.zeros(len(drawn), int), np.full(len(drawn), len(times) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        reached = np.zeros(len(drawn), int)
        for turn, often in zip(ordered, drawn.T, strict=True):
            reached += often * np.searchsorted(turn, times[middle], side="right")
        enough = reached >= count
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return times[low]


def _holds(values: np.ndarray, confidence: float) -> Interval:
    lower, upper = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(lower), float(upper)


def enough_seconds() -> float:
    """Returns after how many seconds a measurement with :data:`LEAST_RUNS` runs ends, at most :data:`MOST_SECONDS`.

    Raises:
        InputError: The environment variable is no such number of seconds.
    """
    text = os.environ.get(SECONDS_VARIABLE, "")
    if not text:
        return ENOUGH_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= MOST_SECONDS:
        raise InputError(
            "is not a time that a latency can be measured for",
            subject=SECONDS_VARIABLE,
            expected=f"seconds, more than 0 and at most {MOST_SECONDS:g}",
            found=text,
            hint=f"unset it: {ENOUGH_SECONDS:g} is taken then",
        )
    return seconds


def measure_in_turns(
    run: Mapping[str, Callable[[], object]],
    step: Callable[[str, int, int], None] | None = None,
    most_seconds: float = MOST_SECONDS,
) -> dict[str, Latency]:
    """Measures callables of this process in turns, like :func:`time_in_turns`.

    Args:
        run: The callables to measure, by name; each call is one run.
        step: Told how many turns are done.
        most_seconds: When the measurement ends at the latest, save for one run of each.

    Returns:
        At least one time for each name.
    """
    return time_in_turns({name: partial(_time_calls, call) for name, call in run.items()}, step, most_seconds)


def time_in_turns(
    timers: Mapping[str, Timer],
    step: Callable[[str, int, int], None] | None = None,
    most_seconds: float = MOST_SECONDS,
) -> dict[str, Latency]:
    """Measures models in turns; every second round runs in reverse order.

    Each model first runs up to :data:`WARM_UP_RUNS` times. A turn has as many runs as fit in :data:`TURN_SECONDS`. If
    there are several, an uncounted run precedes them, because the previous model has left its own data in the caches.

    Args:
        timers: The functions that measure a model, by name.
        step: Told how many turns are done.
        most_seconds: When the measurement ends at the latest, save for one run of each.

    Returns:
        At least one time for each name.

    Raises:
        InputError: As of :func:`enough_seconds`.
    """
    enough_after = enough_seconds()
    start = time.perf_counter()
    fastest = {name: _warm_up(timer, most_seconds / LEAST_RUNS) for name, timer in timers.items()}
    if time.perf_counter() - start >= most_seconds:
        return {name: Latency((seconds * 1e3,)) for name, seconds in fastest.items()}
    runs = {name: max(1, math.ceil(TURN_SECONDS / max(seconds, 1e-7))) for name, seconds in fastest.items()}
    times: dict[str, list[float]] = {name: [] for name in timers}
    rounds = 0
    while True:
        for name in list(timers)[:: -1 if rounds % 2 else 1]:
            times[name].extend(timers[name](runs[name], 1 if runs[name] > 1 else 0))
        rounds += 1
        if step is not None:
            step("turn", rounds, 0)
        elapsed = time.perf_counter() - start
        enough = elapsed >= enough_after and all(len(made) >= LEAST_RUNS for made in times.values())
        if enough or elapsed >= most_seconds:
            return {name: Latency(tuple(made), runs[name]) for name, made in times.items()}


def _warm_up(timer: Timer, long: float) -> float:
    """Returns the seconds of the fastest of the first runs; the runs end early once the fastest exceeds ``long``."""
    fastest = math.inf
    for _ in range(WARM_UP_RUNS):
        (milliseconds,) = timer(1, 0)
        fastest = min(fastest, milliseconds / 1e3)
        if fastest > long:
            break
    return fastest


def _time_calls(call: Callable[[], object], runs: int, warm_up: int) -> list[float]:
    # the check in a bundle, which ships without this file, measures the same way: edgekit/device_check/check_service.py
    for _ in range(warm_up):
        call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return times
