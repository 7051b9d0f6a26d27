from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest

from edgekit.quality_gate.measuring import Limit, Ratio, measure_ratio


def spinning(seconds: float) -> Callable[[], None]:
    """Something that takes so much processor time."""

    def spin() -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    return spin


def ratio(lower: float, upper: float, median: float = 1.0) -> Ratio:
    return Ratio(median, lower, upper, 20, 1.0)


def test_the_ratio_of_two_times_is_found() -> None:
    found = measure_ratio(
        spinning(400e-6), spinning(200e-6), lambda ratio: ratio.known and ratio.spread < 0.05, seconds=30
    )
    assert 1.9 < found.lower <= found.median <= found.upper < 2.1  # what a call costs makes it less than 2
    assert found.seconds < 30


def test_it_ends_as_soon_as_the_answer_is_clear() -> None:
    limit = Limit(1.5)
    found = measure_ratio(spinning(600e-6), spinning(200e-6), limit.settled_by, seconds=30)
    assert limit.broken_by(found)
    assert not limit.kept_by(found)
    assert found.pairs >= 14  # before that nothing at all is proven


def test_it_ends_at_the_time_limit() -> None:
    told: list[tuple[str, int, int]] = []
    found = measure_ratio(
        spinning(1e-4), spinning(1e-4), lambda _: False, seconds=0.1, step=lambda *step: told.append(step)
    )
    assert (found.lower, found.upper) == (0.0, math.inf)
    assert not found.known
    assert 0.1 <= found.seconds < 5
    assert told == [("pair", number, 0) for number in range(1, found.pairs + 1)]
    assert found.as_record()["upper"] is None


@pytest.mark.parametrize(("seconds", "warm_up", "runs"), [(0.0005, 3, 40), (0.01, 3, 10), (0.05, 3, 4), (0.25, 1, 1)])
def test_slow_models_run_less_often_in_a_turn(seconds: float, warm_up: int, runs: int) -> None:
    """About 20 ms, ten times at least, for 0.2 s at the most; one run before them does not count."""
    calls = []

    def slow() -> None:
        calls.append(None)
        time.sleep(seconds)

    measure_ratio(slow, lambda: None, lambda _: True)
    counted = len(calls) - warm_up - (runs > 1)
    assert 0.7 * runs <= counted <= runs


def test_what_interrupts_some_runs_does_not_count() -> None:
    calls = []

    def interrupted() -> None:
        calls.append(None)
        spinning(2e-3 if len(calls) % 3 else 2e-4)()

    found = measure_ratio(interrupted, spinning(2e-4), lambda ratio: ratio.known, seconds=30)
    assert 0.9 < found.lower <= found.upper < 1.1


def test_what_a_model_raises_is_not_hidden() -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        measure_ratio(broken, spinning(1e-4), lambda _: True)


@pytest.mark.parametrize(
    ("found", "kept", "broken"),
    [
        (ratio(0.9, 1.05), True, False),
        (ratio(0.9, 1.051), False, False),
        (ratio(1.05, 1.2), False, False),
        (ratio(1.051, 1.2), False, True),
        (ratio(1.3, 1.2), False, False),  # it changed while it was measured
        (ratio(0.0, math.inf), False, False),
    ],
)
def test_a_limit(found: Ratio, kept: bool, broken: bool) -> None:
    limit = Limit(1.05)
    assert (limit.kept_by(found), limit.broken_by(found)) == (kept, broken)
    assert limit.settled_by(found) is (kept or broken)


def test_the_spread_is_the_farther_bound_s() -> None:
    assert ratio(0.98, 1.01).spread == pytest.approx(1 / 0.98 - 1)
    assert ratio(0.0, 1.01).spread == math.inf
