from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import edgekit
from edgekit.errors import InputError
from edgekit.progress import Progress
from edgekit.timing import latency
from edgekit.timing.latency import (
    LEAST_RUNS,
    STAND_IN_SECONDS,
    Latency,
    measure_in_turns,
    median_interval,
    ratio_interval,
    time_in_turns,
)


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


@pytest.mark.parametrize(("seconds", "most_runs"), [(0.001, 1000), (0.3, 4), (3.0, 1)])
def test_a_stand_in_takes_a_second_or_one_run(clock: Clock, seconds: float, most_runs: int) -> None:
    times = measure_in_turns({"stand-in": clock.work(seconds)}, most_seconds=STAND_IN_SECONDS)
    assert clock.now <= max(1 + seconds, 1.1)
    assert 1 <= len(times["stand-in"].milliseconds) <= most_runs
    assert times["stand-in"].percentile(50) == pytest.approx(seconds * 1e3)


def test_a_timer_is_asked_for_turns_of_about_the_same_length(clock: Clock) -> None:
    asked: list[tuple[int, int]] = []

    def timer(runs: int, warm_up: int) -> list[float]:
        asked.append((runs, warm_up))
        clock.now += 0.004 * (runs + warm_up)
        return [4.0] * runs

    (latency,) = time_in_turns({"model": timer}).values()
    assert asked[:5] == [(1, 0)] * 3 + [(5, 1)] * 2
    assert latency.turns.shape == (len(asked) - 3, 5)


def test_the_interval_of_single_runs_is_scipys() -> None:
    times = tuple(np.random.default_rng(1).gamma(20.0, 0.1, 400))
    ours = median_interval(Latency(times))
    assert ours is not None
    theirs = stats.bootstrap([times], np.median, method="percentile", n_resamples=5000, rng=np.random.default_rng(2))
    np.testing.assert_allclose(ours, theirs.confidence_interval, rtol=0.01)


def test_the_interval_of_a_ratio_is_scipys() -> None:
    random = np.random.default_rng(3)
    first, second = random.gamma(20.0, 0.1, 400), random.gamma(30.0, 0.1, 400)
    ours = ratio_interval(Latency(tuple(first)), Latency(tuple(second)))
    assert ours is not None
    theirs = stats.bootstrap(
        [first, second],
        lambda a, b: np.median(a) / np.median(b),
        paired=True,
        vectorized=False,
        method="percentile",
        n_resamples=2000,
        rng=np.random.default_rng(4),
    )
    np.testing.assert_allclose(ours, theirs.confidence_interval, rtol=0.01)


def test_intervals_hold_the_median_as_often_as_they_say_although_the_runs_of_a_turn_resemble_one_another() -> None:
    random, held = np.random.default_rng(5), 0
    for _ in range(100):
        turns = random.normal(10.0, 0.5, (40, 1)) + random.normal(0.0, 0.05, (40, 10))
        interval = median_interval(Latency(tuple(turns.ravel()), 10))
        assert interval is not None
        held += interval[0] <= 10.0 <= interval[1]
    assert 88 <= held <= 100


@pytest.mark.parametrize(("turns", "runs"), [(5, 1), (8, 4), (7, 9), (40, 3)])
def test_the_median_of_each_resample_is_numpys_of_the_times_laid_out(turns: int, runs: int) -> None:
    random = np.random.default_rng(7)
    times = random.gamma(20.0, 0.1, (turns, runs)).round(1)  # several are the same
    drawn = np.random.default_rng(0)  # as _drawn
    medians = [np.median(times[drawn.integers(turns, size=turns)]) for _ in range(1000)]
    given = latency._drawn(turns)
    assert given is not None
    np.testing.assert_allclose(latency._medians(times, given), medians, rtol=1e-15)
    assert median_interval(Latency(tuple(times.ravel()), runs)) == tuple(np.quantile(medians, [0.025, 0.975]))


def test_what_happens_to_both_models_of_a_round_leaves_their_ratio_alone() -> None:
    random = np.random.default_rng(6)
    load = random.gamma(2.0, 1.0, 50)
    first, second = Latency(tuple(load * 3.0)), Latency(tuple(load * 2.0))
    assert ratio_interval(first, second) == pytest.approx((1.5, 1.5))


def test_few_turns_prove_nothing() -> None:
    assert median_interval(Latency((1.0, 2.0, 3.0, 4.0))) is None
    assert median_interval(Latency(tuple([1.0] * 40), 10)) is None
    with pytest.raises(ValueError, match="5 and 6 turns"):
        ratio_interval(Latency((1.0,) * 5), Latency((1.0,) * 6))


def test_the_environment_tells_how_long_is_measured(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = {}
    for told in ("0.1", "3", ""):
        monkeypatch.setenv("EDGEKIT_MEASURE_SECONDS", told)
        start = clock.now
        measure_in_turns({"model": clock.work(0.01)})
        ended[told] = clock.now - start
    assert 0.2 <= ended["0.1"] <= 0.4  # 20 runs of 10 ms at least
    assert 3 <= ended["3"] <= 3.1
    assert 1.5 <= ended[""] <= 1.6


@pytest.mark.parametrize("told", ["0", "-1", "10.5", "nan", "inf", "1,5", "long"])
def test_what_is_no_time_is_refused(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEKIT_MEASURE_SECONDS", told)
    with pytest.raises(InputError) as refused:
        measure_in_turns({"model": lambda: None})
    assert str(refused.value) == (
        "EDGEKIT_MEASURE_SECONDS: is not a time that a latency can be measured for\n"
        f"expected: seconds, more than 0 and at most 10\nfound: {told}\nhint: unset it: 1.5 is taken then"
    )


def test_it_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch, onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    monkeypatch.setenv("EDGEKIT_MEASURE_SECONDS", "long")
    model = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { y = Exp(x) }")

    class Begun(Progress):
        def stage(self, name: str) -> AbstractContextManager[None]:
            raise AssertionError(f"{name} began")

    with pytest.raises(InputError, match="EDGEKIT_MEASURE_SECONDS"):
        edgekit.package(model, "onnxruntime", tmp_path / "out", progress=Begun())
