from collections.abc import Callable

import numpy as np
import pytest

from edgekit import latency
from edgekit.latency import LEAST_RUNS, Latency, measure_in_turns


class Clock:
    """Time that passes only while something pretends to work, so that a busy machine changes nothing."""

    def __init__(self) -> None:
        self.now = 0.0

    def work(self, seconds: float, log: list[str] | None = None, name: str = "") -> Callable[[], None]:
        """A call that takes so long, and writes its name into the log."""

        def call() -> None:
            self.now += seconds
            if log is not None:
                log.append(name)

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(latency.time, "perf_counter", lambda: clock.now)
    return clock


def test_percentiles_are_those_of_numpy() -> None:
    times = tuple(np.random.default_rng(0).exponential(2.0, 101))
    record = Latency(times).as_record()
    assert record["runs"] == 101
    for percent in (50, 90, 99):
        assert record[f"p{percent}_ms"] == pytest.approx(np.percentile(times, percent), abs=1e-6)


def test_times_are_those_of_each_model(clock: Clock) -> None:
    times = measure_in_turns({"slow": clock.work(0.004), "fast": clock.work(0.001)})
    assert times["slow"].percentile(50) == pytest.approx(4)
    assert times["fast"].percentile(50) == pytest.approx(1)
    assert min(len(latency.milliseconds) for latency in times.values()) >= LEAST_RUNS


def test_models_take_turns_in_alternating_order(clock: Clock) -> None:
    calls: list[str] = []
    measure_in_turns({"a": clock.work(0.03, calls, "a"), "b": clock.work(0.03, calls, "b")})
    assert "".join(calls[:14]) == "aaabbb" + "abba" * 2


def test_a_slow_model_ends_the_measurement_in_time(clock: Clock) -> None:
    times = measure_in_turns({"slow": clock.work(3.0)})
    assert clock.now <= 20
    assert times["slow"].milliseconds
