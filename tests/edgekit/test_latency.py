import time

import numpy as np
import pytest

from edgekit.latency import LEAST_RUNS, Latency, measure_in_turns


def test_percentiles_are_those_of_numpy() -> None:
    times = tuple(np.random.default_rng(0).exponential(2.0, 101))
    record = Latency(times).as_record()
    assert record["runs"] == 101
    for percent in (50, 90, 99):
        assert record[f"p{percent}_ms"] == pytest.approx(np.percentile(times, percent), abs=1e-6)


def test_the_slower_one_is_slower() -> None:
    times = measure_in_turns({"slow": lambda: time.sleep(0.004), "fast": lambda: time.sleep(0.001)})
    assert times["slow"].percentile(50) >= 4
    assert 1 <= times["fast"].percentile(50) < times["slow"].percentile(50)
    assert min(len(latency.milliseconds) for latency in times.values()) >= LEAST_RUNS


def test_models_take_turns_in_alternating_order() -> None:
    calls: list[str] = []
    measure_in_turns(
        {"a": lambda: calls.append("a") or time.sleep(0.03), "b": lambda: calls.append("b") or time.sleep(0.03)}
    )
    assert "".join(calls[:14]) == "aaabbb" + "abba" * 2


def test_a_slow_model_ends_the_measurement_in_time() -> None:
    start = time.perf_counter()
    times = measure_in_turns({"slow": lambda: time.sleep(0.3)})
    assert time.perf_counter() - start < 3
    assert times["slow"].milliseconds
