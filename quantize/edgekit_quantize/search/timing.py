"""How long candidates take beside the float model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.timing.latency import Interval, Latency, ratio_interval

Clock = Callable[[], float]
"""Tells seconds that only grow, such as :func:`time.perf_counter`."""

ROUNDS = 12
ROUND_S = 0.01
"""Rounds in which models are timed in turns, and how long each one's turn takes."""
LONG_RUN_S = 0.05
"""A turn whose first run takes so long is that run: what it takes to fill the caches, a few MB, is no part of it that
counts."""
MORE_ROUNDS = 30
"""Where what a few said is in doubt."""
FEWEST_ROUNDS = 4
ENOUGH_S = 1.5
"""After so long no more rounds are begun than :data:`FEWEST_ROUNDS`."""
SETTLED_ROUNDS, SETTLED = 6, 0.01
"""From so many rounds on none is begun where turns differ by less than this share: more would tell nothing else."""
MORE_AT_MOST = 2
"""How many times as many rounds are begun at most on a machine so busy that turns do not agree."""
QUANTILE = 0.1
"""The share of quick runs that stands for a turn: one that is quick by chance tells as little as those that are slow
because the machine is busy."""
AGREEING = 3
"""How many turns of a model have to be as quick as its quickest."""
AS_QUICK = 0.05
"""Turns that differ by less than this share are as quick as each other."""

BUSY = 0.1
"""Where turns that should agree differ by more than this share, the machine may have decided what is the fastest."""


@dataclass(frozen=True)
class Latencies:
    """What was measured of several models in turns."""

    milliseconds: list[float]
    """Of every model: its quickest turn, which is the one that the rest of the machine disturbed the least."""
    spread: float
    """By which share the third quickest turn (:data:`AGREEING`) of a model took longer than its quickest, of the model
    whose turns agree the least. Near 0 on a quiet machine."""
    turns: list[list[float]]
    """Of every model: milliseconds of its turns, one a round."""

    def times_as_fast(self, place: int, other: int) -> Interval:
        """In which interval lies how many times as fast a model is as another one, as far as their turns tell.

        That of their medians, in which half of the turns count, whoever disturbed them, and the figure that their
        quickest turns give. After few rounds (:data:`edgekit.timing.latency.LEAST_TURNS`) that of each round's figure.

        Args:
            place: The model, as :func:`latencies` was given it.
            other: What it is held against, likewise.
        """
        own, against = self.turns[place], self.turns[other]
        figures = [self.milliseconds[other] / self.milliseconds[place]]
        of_medians = ratio_interval(Latency(tuple(against)), Latency(tuple(own)))
        figures += (
            [slow / quick for slow, quick in zip(against, own, strict=True)] if of_medians is None else of_medians
        )
        return min(figures), max(figures)


def latencies(
    *calls: Callable[[], object],
    clock: Clock = time.perf_counter,
    rounds: int = ROUNDS,
    settled_rounds: int = SETTLED_ROUNDS,
) -> Latencies:
    """How long every call takes, timed in turns, in as many rounds as it takes until turns agree.

    On a busy machine most turns are disturbed: whoever shares its processors takes them away in the middle of a call,
    for longer than a quick call takes. The quickest turn is right where any was left alone, and several that agree tell
    that it was.

    Args:
        calls: What is timed.
        clock: Tells the time.
        rounds: How often each has its turn; :data:`FEWEST_ROUNDS` where that takes longer than :data:`ENOUGH_S`,
            and :data:`MORE_AT_MOST` times as many where turns do not agree.
        settled_rounds: How often at least where turns hardly differ.
    """
    turns: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    start, number, spread = clock(), 0, np.inf
    while True:
        elapsed = clock() - start
        settled = number >= settled_rounds and spread <= SETTLED
        enough = settled or number >= rounds or (number >= FEWEST_ROUNDS and elapsed > ENOUGH_S)
        if enough and (spread <= AS_QUICK or number >= MORE_AT_MOST * rounds or elapsed > MORE_AT_MOST * ENOUGH_S):
            in_ms = [[1e3 * seconds for seconds in each] for each in turns]
            return Latencies([min(each) for each in in_ms], spread, in_ms)
        for call, quick in zip(calls, turns, strict=True):
            quick.append(_turn(call, clock))
        number += 1
        spread = max((_spread(quick) for quick in turns), default=0.0)


def _turn(call: Callable[[], object], clock: Clock) -> float:
    """Seconds that stand for one turn, whose first run warms the caches and does not count unless it is long."""
    start = clock()
    call()
    first = clock() - start
    if first >= LONG_RUN_S:
        return first
    seconds: list[float] = []
    end = clock() + ROUND_S
    now = 0.0
    while now < end:
        start = clock()
        call()
        now = clock()
        seconds.append(now - start)
    return float(np.quantile(seconds, QUANTILE, method="lower"))


def _spread(turns: Sequence[float]) -> float:
    if len(turns) < AGREEING:
        return np.inf
    quickest, *_, last = sorted(turns)[:AGREEING]
    return last / quickest - 1 if quickest else 0.0


def busy_warning(spread: float) -> str | None:
    """What to tell where latencies are in doubt (:attr:`Latencies.spread`); None where turns agreed."""
    if spread <= BUSY:
        return None
    return (
        "the machine was busy while candidates were timed, and of the quickest turns of one model some took "
        f"{1 + spread:.1f} times as long as others: another candidate may come out as the fastest next time; quantize "
        "on an idle machine, or repeat this choice with --like"
    )
