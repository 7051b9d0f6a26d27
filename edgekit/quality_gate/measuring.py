"""Measures the ratio of two models' times until it is clear on which side of a limit it lies.

Both models are opened anew in every round, a coin decides which one first, and a round is one observation: where a
session's tensors lie in memory, what was compiled for it and on which processor it began stays with it for good, and
two sessions of one model differ by that. What one session has by luck, the next one does not.
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
"""A turn runs one model for about this long, and :data:`TURN_RUNS` times at least."""
TURN_RUNS = 10
"""Nearly always nothing interrupts one of 10 runs, even with four times the work that the machine can do at a time."""
LONGEST_TURN_SECONDS = 0.2
"""A model that is so slow that its turn would take longer runs fewer times, and once at least."""
SHORT_RUN_SECONDS = 1e-3
"""Shorter runs are hardly ever interrupted, and asking for how long they were would add to them."""
WARM_UP_RUNS = 3
OPENING_SHARE = 0.5
"""A round measures until opening took at most this share of its time."""
MOST_PAIRS = 15
"""More pairs tell little more about a round."""
SLOW_OPENING = 1 / 60
"""Where opening both takes more than this share of the time limit, the first sessions are kept: fourteen rounds are
the fewest that prove anything."""
_LOOKS_GROW_BY = 1.02
"""Looking costs time: it is done after every round at first, then whenever the number of rounds grew by this factor."""

Run = Callable[[], object]
Opening = Callable[[], Run]
"""Opens a model anew; the result runs it."""


@dataclass(frozen=True)
class Limit:
    """The most that a ratio may be."""

    most: float

    def settled_by(self, ratio: Ratio) -> bool:
        """Whether the bounds tell on which side of the limit the ratio lies."""
        return self.kept_by(ratio) or self.broken_by(ratio)

    def kept_by(self, ratio: Ratio) -> bool:
        """Whether the ratio surely is within the limit."""
        return not ratio.contradictory and ratio.upper <= self.most

    def broken_by(self, ratio: Ratio) -> bool:
        """Whether the ratio surely is above it."""
        return not ratio.contradictory and ratio.lower > self.most


@dataclass(frozen=True)
class Ratio:
    """How many times as long one model takes as another, and what is proven of it."""

    median: float
    """Over the rounds."""
    lower: float
    """0 where nothing is proven."""
    upper: float
    """Infinity where nothing is proven."""
    pairs: int
    """Of turns, in all rounds."""
    rounds: int
    seconds: float
    """How long it was measured."""
    budget: str | None = None
    """The key of the budget that it was measured for."""

    @property
    def contradictory(self) -> bool:
        """Whether the ratio moved while it was measured, so that no bounds hold: its median lies outside."""
        return not self.lower <= self.median <= self.upper

    @property
    def known(self) -> bool:
        """Whether anything is proven: the ratio lies between two bounds."""
        return self.lower > 0 and math.isfinite(self.upper) and not self.contradictory

    @property
    def spread(self) -> float:
        """How far the bounds lie from the median at most, relative to it."""
        return max(self.upper / self.median, self.median / self.lower if self.lower else math.inf) - 1

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``; JSON has no infinity, so that an upper bound that is not there is null."""
        return {**asdict(self), "upper": self.upper if math.isfinite(self.upper) else None}


@dataclass
class _Model:
    """One of the two."""

    run: Run
    waited: Callable[[], float]
    """Seconds that this thread has waited for a processor."""
    runs_a_turn: int = field(init=False)
    short: bool = field(init=False)

    def __post_init__(self) -> None:
        """Warms it up."""
        fastest = math.inf
        for _ in range(WARM_UP_RUNS):
            fastest = max(min(fastest, self._time()), 1e-7)
            if fastest > LONGEST_TURN_SECONDS:
                break
        wanted = max(TURN_RUNS, math.ceil(TURN_SECONDS / fastest))
        self.runs_a_turn = max(1, min(wanted, int(LONGEST_TURN_SECONDS / fastest)))
        self.short = fastest < SHORT_RUN_SECONDS

    def turn(self) -> float:
        """Seconds of the fastest of a turn's runs: whatever interrupts a run can only make it longer.

        One run goes before them that does not count: the other model's data are in the caches.
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
        """Without the time for which others had the processors; the clock's readings lie around the waiting's."""
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
        built: Opens the one.
        other: Opens the other.
        clear: Whether what is known is enough.
        seconds: When it ends although it is not.
        step: Told of the pairs that are done.
    """
    with closing(observe_rounds(built, other, seconds=seconds, step=step)) as rounds:
        return settle(rounds, clear, seconds=seconds)


@dataclass(frozen=True)
class Round:
    """One observation."""

    difference: float
    """Logarithm of the ratio of the two models' times: the median over the round's pairs."""
    pairs: int
    """Of turns."""
    seconds: float
    """That the round took, opening the models included."""
    same_sessions: bool
    """Whether the models were not opened anew for it."""


def observe_rounds(
    built: Opening, other: Opening, *, seconds: float = TIME_LIMIT, step: Step | None = None
) -> Generator[Round]:
    """Rounds of pairs, for as long as they are asked for.

    Args:
        built: Opens the one.
        other: Opens the other.
        seconds: How long all rounds may take; where opening takes too much of it, the first sessions are kept.
        step: Told of the pairs that are done.
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
    """What rounds prove, as soon as it is clear or they have taken too long.

    Args:
        rounds: The observations; as many as it takes.
        clear: Whether what is known is enough.
        seconds: That the rounds may take; the one that takes longer is the last.

    Raises:
        ValueError: The rounds end before.
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
    """Both models, opened in an order that a coin decides, and the seconds that it took."""
    start = time.perf_counter()
    if _coin.random() < 0.5:
        first, second = _Model(built(), waited), _Model(other(), waited)
    else:
        second, first = _Model(other(), waited), _Model(built(), waited)
    return (first, second), time.perf_counter() - start


def _difference(first: _Model, second: _Model) -> float:
    """Logarithm of the ratio of one turn of each; a coin decides which comes first."""
    if _coin.random() < 0.5:
        numerator, denominator = first.turn(), second.turn()
    else:
        denominator, numerator = second.turn(), first.turn()
    return math.log(numerator / denominator)
