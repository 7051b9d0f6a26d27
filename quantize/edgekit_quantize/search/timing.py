"""Measures the latencies of candidates in turns with the float model's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.timing.latency import Interval, Latency, ratio_interval

Clock = Callable[[], float]
"""Returns a monotonic time in seconds, as :func:`time.perf_counter` does."""

ROUNDS = 12
ROUND_S = 0.01
"""The number of rounds in which models are timed in turns, and the duration of each model's turn in seconds."""
LONG_RUN_S = 0.05
"""If the first run of a turn takes at least LONG_RUN_S seconds, the turn is this run alone: filling the caches, a few
MB, takes a negligible part of it."""
MORE_ROUNDS = 30
"""The number of rounds if the result of :data:`ROUNDS` is in doubt."""
FEWEST_ROUNDS = 4
ENOUGH_S = 1.5
"""After ENOUGH_S seconds, no further rounds begin than the first :data:`FEWEST_ROUNDS`."""
SETTLED_ROUNDS, SETTLED = 6, 0.01
"""After SETTLED_ROUNDS rounds, no further round begins if the quickest turns of each model differ by at most the share
SETTLED: more rounds would not change the result."""
MORE_AT_MOST = 2
"""On a machine so busy that turns do not agree, at most MORE_AT_MOST times as many rounds are timed."""
QUANTILE = 0.1
"""The quantile of a turn's run times that is the latency of the turn: a run that is fast by chance says as little as
runs that are slow because the machine is busy."""
AGREEING = 3
"""How many of a model's quickest turns have to agree."""
AS_QUICK = 0.05
"""Turns that differ by at most this share agree."""

BUSY = 0.1
"""If turns that should agree differ by more than this share, the machine's noise may decide which model is fastest."""


@dataclass(frozen=True)
class Latencies:
    """The latencies of several models, timed in turns."""

    milliseconds: list[float]
    """The quickest turn of every model, which other programs disturbed the least."""
    spread: float
    """The share by which the third quickest turn (:data:`AGREEING`) of a model took longer than its quickest, for the
    model whose turns agree the least. Near 0 on a quiet machine."""
    turns: list[list[float]]
    """The turns of every model in milliseconds, one per round."""

    def times_as_fast(self, place: int, other: int) -> Interval:
        """The interval, by the measured turns, of how many times as fast one model is as another.

        It spans the interval of the ratio of their medians, which is robust if up to half of the turns are disturbed,
        and the ratio of their quickest turns. After fewer rounds than :data:`edgekit.timing.latency.LEAST_TURNS`, it
        spans the ratios of all rounds instead of the interval of the medians.

        Args:
            place: The index of the model among the arguments of :func:`latencies`.
            other: The index of the model that it is compared with.
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
    """How long every call takes, timed in turns until the quickest turns agree, or up to a limit.

    On a busy machine most turns are disturbed: other programs interrupt a call for longer than a quick call takes. The
    quickest turn is right if at least one was undisturbed; that several quick turns agree shows that they were.

    Args:
        calls: The calls to time.
        clock: Returns the time in seconds.
        rounds: How many turns each call has; at least :data:`FEWEST_ROUNDS` if they take longer than :data:`ENOUGH_S`,
            and up to :data:`MORE_AT_MOST` times as many if turns do not agree.
        settled_rounds: How many turns each call has at least if turns hardly differ.
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
    """The latency of one turn in seconds; its first run warms the caches and does not count unless it is long."""
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
    """A warning if latencies are in doubt by their :attr:`Latencies.spread`; None if turns agreed."""
    if spread <= BUSY:
        return None
    return (
        "the machine was busy while candidates were timed, and the quickest runs of one model differed by a factor "
        f"of {1 + spread:.1f}: another candidate may be the fastest next time; quantize on an idle machine, or "
        "repeat this choice with --like"
    )
