from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

import pytest

from edgekit.quality_gate.measuring import Limit, Ratio, Round, measure_ratio, settle


def spinning(seconds: float) -> Callable[[], None]:
    """Returns a function that takes the given processor time."""

    def spin() -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    return spin


def opening(run: Callable[[], None], opened: list[int] | None = None) -> Callable[[], Callable[[], None]]:
    """Returns a function that opens ``run`` as a session, and counts in ``opened`` how often it is called."""

    def opens() -> Callable[[], None]:
        if opened is not None:
            opened.append(1)
        return run

    return opens


def ratio(lower: float, upper: float, median: float | None = None) -> Ratio:
    return Ratio((lower + upper) / 2 if median is None else median, lower, upper, 20, 20, 1.0)


def test_the_ratio_of_two_times_is_found() -> None:
    found = measure_ratio(
        opening(spinning(400e-6)),
        opening(spinning(200e-6)),
        lambda ratio: ratio.known and ratio.spread < 0.05,
        seconds=30,
    )
    assert 1.9 < found.lower <= found.median <= found.upper < 2.1  # what a call costs makes it less than 2
    assert found.seconds < 30


def test_it_ends_as_soon_as_the_answer_is_clear() -> None:
    limit = Limit(1.5)
    opened: list[int] = []
    found = measure_ratio(opening(spinning(600e-6), opened), opening(spinning(200e-6)), limit.settled_by, seconds=30)
    assert limit.broken_by(found)
    assert not limit.kept_by(found)
    assert 14 <= found.rounds <= found.pairs  # nothing can be proven with fewer
    assert len(opened) == found.rounds  # each of them in a session of its own


def test_what_a_session_has_by_luck_counts_once() -> None:
    """Sessions of one model that are up to a third apart for good: no bounds but those that hold for any two."""
    luck = random.Random(0)

    def lucky() -> Callable[[], None]:
        return spinning(200e-6 * luck.uniform(1, 1.33))

    # An interval of 95 % misses one time in twenty, so that two of three miss less than one time in a hundred.
    found = [
        measure_ratio(lucky, lucky, lambda ratio: ratio.known and ratio.rounds >= 60, seconds=60) for _ in range(3)
    ]
    assert sum(ratio.lower <= 1 <= ratio.upper for ratio in found) >= 2
    kept = opening(spinning(240e-6)), opening(spinning(200e-6))
    assert measure_ratio(*kept, Limit(1.1).settled_by, seconds=30).lower > 1.1  # where there is no luck, it is told


def test_models_that_open_slowly_are_opened_once() -> None:
    opened: list[int] = []

    def slow() -> Callable[[], None]:
        opened.append(1)
        time.sleep(0.1)
        return spinning(200e-6)

    found = measure_ratio(slow, slow, lambda ratio: ratio.rounds >= 4, seconds=5)
    assert found.rounds >= 4
    assert len(opened) == 2


def test_it_ends_at_the_time_limit() -> None:
    told: list[tuple[str, int, int]] = []
    model = opening(spinning(1e-4))
    found = measure_ratio(model, model, lambda _: False, seconds=0.1, step=lambda *step: told.append(step))
    assert (found.lower, found.upper) == (0.0, math.inf)
    assert not found.known
    assert 0.1 <= found.seconds < 5
    assert told == [("pair", number, 0) for number in range(1, found.pairs + 1)]
    assert found.as_record()["upper"] is None


@pytest.mark.parametrize(("seconds", "warm_up", "runs"), [(0.0005, 3, 40), (0.01, 3, 10), (0.05, 3, 4), (0.25, 1, 1)])
def test_slow_models_run_less_often_in_a_turn(
    monkeypatch: pytest.MonkeyPatch, seconds: float, warm_up: int, runs: int
) -> None:
    """About 20 ms, ten times at least, for 0.2 s at the most; one run before them does not count."""
    calls: list[None] = []
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])  # only runs take time

    def run() -> None:
        calls.append(None)
        clock[0] += seconds

    def other() -> None:
        clock[0] += 0.02

    found = measure_ratio(opening(run), opening(other), lambda _: True)
    assert found.pairs == 1
    assert len(calls) == warm_up + runs + (runs > 1)


def test_what_interrupts_some_runs_does_not_count() -> None:
    calls = []

    def interrupted() -> None:
        calls.append(None)
        spinning(2e-3 if len(calls) % 3 else 2e-4)()

    found = measure_ratio(opening(interrupted), opening(spinning(2e-4)), lambda ratio: ratio.known, seconds=30)
    assert 0.9 < found.lower <= found.upper < 1.1


def test_what_a_model_raises_is_not_hidden() -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        measure_ratio(opening(broken), opening(spinning(1e-4)), lambda _: True)


@pytest.mark.parametrize(
    ("found", "kept", "broken"),
    [
        (ratio(0.9, 1.05), True, False),
        (ratio(0.9, 1.051), False, False),
        (ratio(1.05, 1.2), False, False),
        (ratio(1.051, 1.2), False, True),
        (ratio(1.3, 1.2), False, False),  # it changed while it was measured
        (ratio(1.1, 1.2, 1.05), False, False),  # likewise: the median lies outside the bounds
        (ratio(0.9, 1.0, 1.01), False, False),
        (ratio(0.0, math.inf, 1.0), False, False),
    ],
)
def test_a_limit(found: Ratio, kept: bool, broken: bool) -> None:
    limit = Limit(1.05)
    assert (limit.kept_by(found), limit.broken_by(found)) == (kept, broken)
    assert limit.settled_by(found) is (kept or broken)


def test_the_spread_is_the_farther_bound_s() -> None:
    assert ratio(0.98, 1.01, 1.0).spread == pytest.approx(1 / 0.98 - 1)
    assert ratio(0.0, 1.01, 1.0).spread == math.inf


def test_rounds_that_were_recorded_are_settled_as_they_are_when_measured() -> None:
    draw = random.Random(1)
    rounds = [Round(math.log(1.1) + draw.gauss(0, 0.01), 3, 0.25, same_sessions=False) for _ in range(200)]

    found = settle(rounds, Limit(1.05).settled_by, seconds=60)

    assert Limit(1.05).broken_by(found)
    assert found.median == pytest.approx(1.1, abs=0.01)
    assert (found.pairs, found.seconds) == (3 * found.rounds, 0.25 * found.rounds)
    assert found.rounds < len(rounds)


def test_the_last_round_is_the_one_that_takes_too_long() -> None:
    rounds = [Round(0.0, 1, 1.0, same_sessions=False)] * 10
    assert settle(rounds, lambda _: False, seconds=3.5).rounds == 4


def test_rounds_that_settle_nothing() -> None:
    with pytest.raises(ValueError, match=r"2 rounds in 2\.0 s are too few"):
        settle([Round(0.0, 1, 1.0, same_sessions=False)] * 2, lambda _: False, seconds=60)
