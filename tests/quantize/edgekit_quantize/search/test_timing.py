from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle

import pytest

from edgekit_quantize.search.timing import ROUNDS, latencies


class Clock:
    """Goes on by what calls take, and at no other time."""

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

    assert latencies(steady, disturbed, clock=clock) == pytest.approx([2.0, 1.0])


def test_models_take_turns() -> None:
    clock = Clock()

    latencies(*(clock.takes(name, cycle([4e-3])) for name in "ab"), clock=clock)

    turns = [name for name, before in zip(clock.begun[2:], clock.begun[1:], strict=False) if name != before]
    assert clock.begun[:2] == ["a", "b"]  # once before anything counts
    assert turns == [*"ab"] * ROUNDS


def test_slow_models_are_timed_in_fewer_rounds() -> None:
    clock = Clock()

    latencies(clock.takes("slow", cycle([2.0])), clock=clock)

    assert len(clock.begun) < 2 * ROUNDS
