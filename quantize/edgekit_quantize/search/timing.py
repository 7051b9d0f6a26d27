"""How long candidates take beside the float model."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

Clock = Callable[[], float]
"""Tells seconds that only grow, such as :func:`time.perf_counter`."""

ROUNDS = 12
ROUND_S = 0.01
"""Rounds in which models are timed in turns, and how long each one's turn takes."""
MORE_ROUNDS = 30
"""Where what a few said is in doubt."""
FEWEST_ROUNDS = 4
ENOUGH_S = 3.0
"""After so long no more rounds are begun than :data:`FEWEST_ROUNDS`."""
QUANTILE = 0.1
"""The share of quick runs that stands for a model's latency: the slow ones tell of a busy machine."""


def latencies(*calls: Callable[[], object], clock: Clock = time.perf_counter, rounds: int = ROUNDS) -> list[float]:
    """Milliseconds of every call, timed in turns so that a busy machine slows all of them.

    Args:
        calls: What is timed.
        clock: Tells the time.
        rounds: How often each has its turn; :data:`FEWEST_ROUNDS` where that takes longer than :data:`ENOUGH_S`.
    """
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    enough = clock() + ENOUGH_S
    for number in range(rounds):
        if number >= FEWEST_ROUNDS and clock() > enough:
            break
        for call, seconds in zip(calls, times, strict=True):
            call()
            end = clock() + ROUND_S
            now = 0.0
            while now < end:
                start = clock()
                call()
                now = clock()
                seconds.append(now - start)
    return [1e3 * float(np.quantile(seconds, QUANTILE)) for seconds in times]
