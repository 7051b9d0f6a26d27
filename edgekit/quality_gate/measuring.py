"""Measures the ratio of two models' times until it is clear on which side of a limit it lies.

Both models are opened anew in every round, a coin decides which one first, and a round is one observation. The reason:
where a session's tensors lie in memory, what was compiled for it and on which processor it began do not change during
the session, so that two sessions of one model differ. The next session does not have the luck of the one before.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from edgekit.config import TIME_LIMIT
from edgekit.progress import Step
from edgekit.quality_gate.clock import waited_seconds
from edgekit.quality_gate.evidence import ConfidenceSequence

TURN_SECONDS = 0.02
"""A turn runs one model for about this long, and at least :data:`TURN_RUNS` times."""
TURN_RUNS = 10
"""The least runs of a turn. At least one of 10 runs is nearly always free of interruptions, even with four times the
work that the machine can do at a time."""
LONGEST_TURN_SECONDS = 0.2
"""If the turn of a slow model would take longer than this, it has fewer runs, but at least one."""
SHORT_RUN_SECONDS = 1e-3
"""The waiting for a processor is not read for shorter runs: they are hardly ever interrupted, and reading it would make
them longer."""
WARM_UP_RUNS = 3
OPENING_SHARE = 0.5
"""A round measures until opening the models took at most this share of its time, or :data:`MOST_PAIRS` are done."""
MOST_PAIRS = 15
"""Most pairs of a round: more pairs add little to what a round shows."""
SLOW_OPENING = 1 / 60
"""If opening both models takes more than this share of the time limit, the first sessions are kept: at least fourteen
rounds are needed to prove anything."""
_LOOKS_GROW_BY = 1.02
"""Computing the bounds costs time: it is done after every round at first, then each time the number of rounds grew by
this factor."""

Run = Callable[[], object]
Opening = Callable[[], Run]
"""Opens a model anew, and returns a function that runs it."""


@dataclass(frozen=True)
class Limit:
    """The most that a ratio may be."""

    most: float

    def settled_by(self, ratio: Ratio) -> bool:
        """Whether the bounds show on which side of the limit the ratio lies."""
        return self.kept_by(ratio) or self.broken_by(ratio)

    def kept_by(self, ratio: Ratio) -> bool:
        """Whether the bounds prove that the ratio is within the limit."""
        return not ratio.contradictory and ratio.upper <= self.most

    def broken_by(self, ratio: Ratio) -> bool:
        """Whether the bounds prove that the ratio is above the limit."""
        return not ratio.contradictory and ratio.lower > self.most


@dataclass(frozen=True)
class Ratio:
    """How many times as long one model takes as another, with proven bounds."""

    median: float
    """The median over the rounds."""
    lower: float
    """The lower bound; 0 if none is proven."""
    upper: float
    """The upper bound; infinity if none is proven."""
    pairs: int
    """The number of pairs of turns in all rounds."""
    rounds: int
    seconds: float
    """How long the measurement took."""
    budget: str | None = None
    """The key of the budget that the ratio was measured for."""

    @property
    def contradictory(self) -> bool:
        """Whether the median lies outside the bounds: the ratio moved while it was measured, and no bounds hold."""
        return not self.lower <= self.median <= self.upper

    @property
    def known(self) -> bool:
        """Whether both bounds are proven, and the median lies between them."""
        return self.lower > 0 and math.isfinite(self.upper) and not self.contradictory

    @property
    def spread(self) -> float:
        """The greatest distance of a bound from the median, as a factor minus 1."""
        return max(self.upper / self.median, self.median / self.lower if self.lower else math.inf) - 1

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``; an upper bound of infinity is null, since JSON has no infinity."""
        return {**asdict(self), "upper": self.upper if math.isfinite(self.upper) else None}


@dataclass
class _Model:
    """One of the two models of a pair."""

    run: Run
    waited: Callable[[], float]
    """Seconds that this thread has waited for a processor."""
    runs_a_turn: int = field(init=False)
    short: bool = field(init=False)

    def __post_init__(self) -> None:
        """Warms the model up, and decides how many runs a turn has."""
        fastest = math.inf
        for _ in range(WARM_UP_RUNS):
            fastest = max(min(fastest, self._time()), 1e-7)
            if fastest > LONGEST_TURN_SECONDS:
                break
        wanted = max(TURN_RUNS, math.ceil(TURN_SECONDS / fastest))
        self.runs_a_turn = max(1, min(wanted, int(LONGEST_TURN_SECONDS / fastest)))
        self.short = fastest < SHORT_RUN_SECONDS

    def turn(self) -> float:
        """Seconds of the fastest of a turn's runs: an interruption can only make a run longer.

        If a turn has several runs, one more goes before them and does not count: it finds the other model's data in the
        caches.
        """
        if self.runs_a_turn > 1:
            self.run()
        time_run = self._time if self.short else self._time_on_processor
        return min(time_run() for _ in range(self.runs_a_turn))

    def _time(self) -> float:
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start

    def _time_on_processor(self) -> float:
        """Seconds of a run without the time of waiting for a processor, which is read inside the clock's readings."""
        start = time.perf_counter()
        waited = self.waited()
        self.run()
        waited = self.waited() - waited
        return time.perf_counter() - start - waited


def measure_ratio(
    built: Opening,
    other: Opening,
    clear: Callable[[Ratio], bool],
    *,
    seconds: float = TIME_LIMIT,
    step: Step | None = None,
) -> Ratio:
    """The time of ``built`` as a multiple of the time of ``other``.

    In each round both are opened and take turns in pairs; coins decide which one is opened first and which one runs
    first, which is what the confidence sequence of :mod:`edgekit.quality_gate.evidence` rests on.

    Args:
        built: Opens the model whose time is the numerator.
        other: Opens the model whose time is the denominator.
        clear: Whether the ratio is known well enough.
        seconds: When the measurement ends although the ratio is not clear.
        step: Called with the number of pairs that are done.
    """
    with closing(observe_rounds(built, other, seconds=seconds, step=step)) as rounds:
        return settle(rounds, clear, seconds=seconds)


@dataclass(frozen=True)
class Round:
    """One observation."""

    difference: float
    """Logarithm of the ratio of the two models' times: the median over the round's pairs."""
    pairs: int
    """The number of pairs of turns."""
    seconds: float
    """How long the round took, including the opening of the models."""
    same_sessions: bool
    """Whether the models were not opened anew for this round."""


def observe_rounds(
    built: Opening, other: Opening, *, seconds: float = TIME_LIMIT, step: Step | None = None
) -> Generator[Round]:
    """Rounds of pairs, for as long as they are asked for.

    Args:
        built: Opens the model whose time is the numerator.
        other: Opens the model whose time is the denominator.
        seconds: How long all rounds may take; if opening takes too much of it, the first sessions are kept.
        step: Called with the number of pairs that are done.
    """
    with waited_seconds() as waited:
        start = time.perf_counter()
        models, opening = _opened(built, other, waited)
        slow = opening > SLOW_OPENING * seconds
        pairs, kept = 0, False
        while True:
            if kept and not slow:
                models, opening = _opened(built, other, waited)
            differences: list[float] = []
            enough = time.perf_counter() + (0 if slow else opening * (1 / OPENING_SHARE - 1))
            while not differences or (time.perf_counter() < enough and len(differences) < MOST_PAIRS):
                differences.append(_difference(*models))
                pairs += 1
                if step is not None:
                    step("pair", pairs, 0)
            end = time.perf_counter()
            yield Round(median(differences), len(differences), end - start, kept and slow)
            start, kept = end, True


def settle(rounds: Iterable[Round], clear: Callable[[Ratio], bool], *, seconds: float = TIME_LIMIT) -> Ratio:
    """The ratio that rounds prove, as soon as it is clear or the time is over.

    Args:
        rounds: The observations, which are read until the ratio is returned.
        clear: Whether the ratio is known well enough.
        seconds: How long the rounds may take; the round that exceeds it is the last.

    Raises:
        ValueError: The rounds end before the ratio is clear and before the time is over.
    """
    evidence = ConfidenceSequence()
    pairs, elapsed, next_look = 0, 0.0, 1
    for observed in rounds:
        evidence.add(observed.difference)
        pairs += observed.pairs
        elapsed += observed.seconds
        if evidence.count < next_look and elapsed < seconds:
            continue
        evidence.look()
        next_look = max(evidence.count + 1, math.ceil(evidence.count * _LOOKS_GROW_BY))
        centre, lower, upper = map(math.exp, (evidence.estimate, evidence.lower, evidence.upper))
        ratio = Ratio(centre, lower, upper, pairs, evidence.count, round(elapsed, 3))
        if clear(ratio) or elapsed >= seconds:
            return ratio
    raise ValueError(f"{evidence.count} rounds in {elapsed:.1f} s are too few")


_coin = random.Random()


def _opened(built: Opening, other: Opening, waited: Callable[[], float]) -> tuple[tuple[_Model, _Model], float]:
    """Both models, opened in an order that a coin decides, and the seconds that opening them took."""
    start = time.perf_counter()
    if _coin.random() < 0.5:
        first, second = _Model(built(), waited), _Model(other(), waited)
    else:
        second, first = _Model(other(), waited), _Model(built(), waited)
    return (first, second), time.perf_counter() - start


def _difference(first: _Model, second: _Model) -> float:
    """Logarithm of the ratio of the times of one turn of each model; a coin decides which model runs first."""
    if _coin.random() < 0.5:
        numerator, denominator = first.turn(), second.turn()
    else:
        denominator, numerator = second.turn(), first.turn()
    return math.log(numerator / denominator)
