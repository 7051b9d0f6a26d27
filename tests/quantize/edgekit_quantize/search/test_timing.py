from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat

import pytest

from edgekit_quantize.search.timing import FEWEST_ROUNDS, ROUNDS, SETTLED_ROUNDS, busy_warning, latencies


class Clock:
    """A clock that advances only by the time that calls take."""

    def __init__(self) -> None:
        self.now = 0.0
        self.begun: list[str] = []

    def __call__(self) -> float:
        return self.now

    def takes(self, name: str, seconds: Iterator[float]) -> Callable[[], None]:
        def call() -> None:
            self.begun.append(name)
            self.now += next(seconds)

        return call


def test_a_quick_run_stands_for_a_model_and_slow_ones_for_the_machine() -> None:
    clock = Clock()

    steady = clock.takes("steady", cycle([2e-3]))
    disturbed = clock.takes("disturbed", cycle([1e-3, 5e-3, 9e-3]))

    assert latencies(steady, disturbed, clock=clock).milliseconds == pytest.approx([2.0, 1.0])


def _turns(clock: Clock) -> list[str]:
    """Returns which model ran in each turn, without the warm-up runs."""
    assert clock.begun[:2] == ["a", "b"]
    return [name for name, before in zip(clock.begun[2:], clock.begun[1:], strict=False) if name != before]


def test_models_take_turns() -> None:
    clock = Clock()
    differing = chain.from_iterable(repeat(4e-3 * (1 + turn % 12 / 50), 4) for turn in range(1000))  # by 2 %

    latencies(clock.takes("a", cycle([4e-3])), clock.takes("b", differing), clock=clock)

    assert _turns(clock) == [*"ab"] * ROUNDS


def test_models_whose_turns_hardly_differ_take_fewer_turns() -> None:
    for settled, rounds in ((SETTLED_ROUNDS, SETTLED_ROUNDS), (ROUNDS, ROUNDS)):
        clock = Clock()
        calls = [clock.takes(name, cycle([4e-3])) for name in "ab"]

        latencies(*calls, clock=clock, settled_rounds=settled)

        assert _turns(clock) == [*"ab"] * rounds


def test_a_long_run_counts_though_it_is_the_first_of_its_turn() -> None:
    clock = Clock()

    found = latencies(clock.takes("slow", chain([0.2], repeat(0.1))), clock=clock)

    assert found.milliseconds == pytest.approx([100.0])
    assert len(clock.begun) == 1 + SETTLED_ROUNDS


def test_slow_models_are_timed_in_fewer_rounds() -> None:
    clock = Clock()

    latencies(clock.takes("slow", cycle([2.0])), clock=clock)

    assert len(clock.begun) < 2 * ROUNDS


def test_turns_that_were_left_alone_stand_for_a_model_on_a_busy_machine() -> None:
    """The quick model is disturbed in its first turns, longer each time; its runs taken together seem slower."""
    clock = Clock()
    disturbed = chain.from_iterable(repeat(20e-3 * 1.1**turn, 2) for turn in range(ROUNDS))
    quick = clock.takes("quick", chain([20e-3], disturbed, repeat(1e-3)))
    slow = clock.takes("slow", cycle([4e-3]))

    found = latencies(quick, slow, clock=clock)

    assert found.milliseconds == pytest.approx([1.0, 4.0])
    assert found.spread == pytest.approx(0.0)


def test_how_many_times_as_fast_lies_where_turns_differ() -> None:
    """The quick model takes 1 ms or 4, one turn as often as the other: 4 or 16 times as fast."""
    clock = Clock()
    quick = clock.takes("quick", chain([60e-3], cycle([60e-3, 240e-3])))
    slow = clock.takes("slow", cycle([960e-3]))

    found = latencies(quick, slow, clock=clock)

    assert found.times_as_fast(0, 1) == pytest.approx((4.0, 16.0))
    assert found.times_as_fast(1, 0) == pytest.approx((1 / 16, 1 / 4))


def test_how_many_times_as_fast_is_one_figure_where_turns_agree() -> None:
    clock = Clock()

    found = latencies(*(clock.takes(name, cycle([taken])) for name, taken in (("a", 1e-3), ("b", 3e-3))), clock=clock)

    assert found.times_as_fast(0, 1) == pytest.approx((3.0, 3.0))


def test_a_machine_that_is_never_left_alone_is_told() -> None:
    clock = Clock()
    growing = clock.takes("growing", (1e-3 * 1.02**number for number in range(100_000)))

    found = latencies(growing, clock=clock)

    assert found.spread > 0.1
    assert f"of one model differed by a factor of {1 + found.spread:.1f}" in (busy_warning(found.spread) or "")
    assert busy_warning(0.02) is None


def test_a_slow_model_whose_turns_agree_is_not_timed_for_longer() -> None:
    clock = Clock()

    latencies(clock.takes("slow", cycle([2.0])), clock=clock)

    assert len(clock.begun) == 1 + FEWEST_ROUNDS
