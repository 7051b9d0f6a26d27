"""Measures the ratio of two models' times until it is clear on which side of a limit it lies."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from edgekit.config import TIME_LIMIT
from edgekit.gate.evidence import ConfidenceSequence
from edgekit.quantizer import Progress

TURN_SECONDS = 0.02
"""A turn runs one model for about this long, and :data:`TURN_RUNS` times at least."""
TURN_RUNS = 10
"""Of so many runs one is hardly ever interrupted, on a machine with four times the work that it can do at a time."""
LONGEST_TURN_SECONDS = 0.2
"""A model that is so slow that its turn would take longer runs fewer times, and once at least."""
WARM_UP_RUNS = 3
_LOOKS_GROW_BY = 1.02
"""Looking costs time too: it is done after every pair at first, and then whenever there are so many times the pairs."""


@dataclass(frozen=True)
class Limit:
    """A limit of the ratio, known exactly or to lie in a band."""

    least: float
    """A ratio that is at most this surely keeps the limit."""
    most: float
    """One above this surely breaks it."""

    def settled_by(self, ratio: Ratio) -> bool:
        """Whether the bounds tell on which side of the limit the ratio lies."""
        return self.kept_by(ratio) or self.broken_by(ratio)

    def kept_by(self, ratio: Ratio) -> bool:
        """Whether the ratio surely is at most the limit."""
        return not ratio.contradictory and ratio.upper <= self.least

    def broken_by(self, ratio: Ratio) -> bool:
        """Whether the ratio surely is above the limit."""
        return not ratio.contradictory and ratio.lower > self.most


@dataclass(frozen=True)
class Ratio:
    """How many times as long one model takes as another, and what is proven of it."""

    median: float
    """Over the pairs of turns."""
    lower: float
    """0 where nothing is proven."""
    upper: float
    """Infinity where nothing is proven."""
    pairs: int
    seconds: float
    """How long it was measured."""

    @property
    def contradictory(self) -> bool:
        """Whether the ratio moved while it was measured, so that no bounds hold."""
        return self.lower > self.upper

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

    run: Callable[[], object]
    runs_a_turn: int = field(init=False)

    def __post_init__(self) -> None:
        """Warms it up."""
        fastest = math.inf
        for _ in range(WARM_UP_RUNS):
            fastest = max(min(fastest, self._time()), 1e-7)
            if fastest > LONGEST_TURN_SECONDS:
                break
        wanted = max(TURN_RUNS, math.ceil(TURN_SECONDS / fastest))
        self.runs_a_turn = max(1, min(wanted, int(LONGEST_TURN_SECONDS / fastest)))

    def turn(self) -> float:
        """Seconds of the fastest of a turn's runs: whatever interrupts a run can only make it longer.

        One run goes before them that does not count: the other model's data are in the caches.
        """
        if self.runs_a_turn > 1:
            self.run()
        return min(self._time() for _ in range(self.runs_a_turn))

    def _time(self) -> float:
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start


def measure_ratio(
    built: Callable[[], object],
    other: Callable[[], object],
    clear: Callable[[Ratio], bool],
    *,
    seconds: float = TIME_LIMIT,
    step: Progress | None = None,
) -> Ratio:
    """The time of ``built`` as a multiple of the time of ``other``.

    The two take turns in pairs; a coin decides in each which comes first, which is what :mod:`edgekit.gate.evidence`
    rests on.

    Args:
        built: One run of the one.
        other: One run of the other.
        clear: Whether what is known is enough.
        seconds: When it ends although it is not.
        step: Told of the pairs that are done.
    """
    coin = random.Random()
    start = time.perf_counter()
    first, second = _Model(built), _Model(other)
    evidence = ConfidenceSequence()
    next_look = 1
    while True:
        if coin.random() < 0.5:
            numerator, denominator = first.turn(), second.turn()
        else:
            denominator, numerator = second.turn(), first.turn()
        evidence.add(math.log(numerator / denominator))
        if step is not None:
            step("pair", evidence.count, 0)
        elapsed = time.perf_counter() - start
        if evidence.count < next_look and elapsed < seconds:
            continue
        evidence.look()
        next_look = max(evidence.count + 1, math.ceil(evidence.count * _LOOKS_GROW_BY))
        ratio = Ratio(
            math.exp(evidence.estimate),
            math.exp(evidence.lower),
            math.exp(evidence.upper),
            evidence.count,
            round(elapsed, 3),
        )
        if clear(ratio) or elapsed >= seconds:
            return ratio
