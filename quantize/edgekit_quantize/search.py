"""Finds the fastest model that holds the accuracy budget on the target, and is not slower than float."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from edgekit.metrics import json_number
from edgekit.target import Runner
from edgekit_quantize.calibration.statistics import Reference
from edgekit_quantize.placement import Settings
from edgekit_quantize.scoring import Score, latencies, score
from edgekit_quantize.writing import Written

NOISE = 0.05
"""Two latencies that differ by less than this share are the same: the machine's own noise is as large."""
PLAY_OFF = 1.2
"""Candidates that are at most so many times slower than the fastest are timed once more, side by side."""
SAME_SIZE = 1.1
"""Sizes whose ratio is below this do not decide between candidates."""
HOPELESS = 10
"""A candidate that loses more than so many times the budget is not brought back by a few layers in float."""
SHARES = (0.1, 0.25, 0.5)
"""Shares of the integer layers that go back to float, the most sensitive first, where the budget is not held."""

Open = Callable[[ir.Model], Runner]
Write = Callable[[Settings, Collection[str], bool], Written]


@dataclass
class Trial:
    """A candidate that was measured."""

    name: str
    settings: Settings
    written: Written
    score: Score
    latency_ms: float | None = None
    float_ms: float | None = None
    """Latency of the float model, measured in turns with it."""
    size: int = 0
    runner: Runner | None = None
    final_ms: float | None = None
    """Latency in the play-off of the fastest."""

    @property
    def speedup(self) -> float:
        """Float latency over this one's; 1 where neither was measured."""
        return self.float_ms / self.latency_ms if self.latency_ms and self.float_ms else 1.0

    def as_record(self) -> dict[str, Any]:
        """Plain data: one point of the trade-off curve."""
        return {
            "candidate": self.name,
            "metric": self.score.metric,
            "value": self.score.value,
            "float_value": self.score.reference,
            "sqnr_db": json_number(self.score.sqnr_db),
            "latency_ms": self.latency_ms,
            "float_latency_ms": self.float_ms,
            "final_latency_ms": self.final_ms,
            "integer_layers": len(self.written.quantized),
            "weight_bytes": self.size,
        }


@dataclass
class Bench:
    """What candidates are judged with."""

    open: Open
    references: Sequence[Reference]
    classes: bool
    original: Runner | None
    """Executes the float model where latency counts; None where it does not."""

    def measure(self, name: str, settings: Settings, written: Written) -> Trial:
        """Build, score and time a candidate."""
        runner = self.open(written.model)
        found = score(runner.run, self.references, classes=self.classes)
        trial = Trial(name, settings, written, found, size=weight_bytes(written.model), runner=runner)
        original = self.original
        if original is not None:
            feeds = self.references[0].feeds
            trial.float_ms, trial.latency_ms = latencies(lambda: original.run(feeds), lambda: runner.run(feeds))
        return trial


@dataclass
class Outcome:
    """What the search found."""

    best: Trial | None
    """None where nothing holds the budget."""
    curve: list[Trial] = field(default_factory=list)


def search(
    bench: Bench,
    candidates: Sequence[tuple[str, Settings]],
    write: Write,
    sensitive: Callable[[Written, Settings], Sequence[str]],
    max_drop: float,
    *,
    speed_counts: bool,
) -> Outcome:
    """Measure the candidates, if need be bring the fastest near miss into the budget, choose the fastest.

    Where nothing holds the budget, a near miss gets its weights rounded with care; then its most sensitive layers go
    back to float.

    Of candidates that are as fast as each other the smallest is chosen, and of those the one with the least error.

    Args:
        bench: What they are judged with.
        candidates: Name and settings of each.
        write: Writes a candidate with the named layers kept in float, and with weights rounded with care if asked to.
        sensitive: A candidate's integer layers, the one that adds the largest error first.
        max_drop: What may be lost of the metric.
        speed_counts: Whether a candidate that is slower than float is out.
    """
    outcome = Outcome(None)

    def fit() -> list[Trial]:
        held = [trial for trial in outcome.curve if trial.score.drop <= max_drop]
        return [trial for trial in held if not speed_counts or trial.speedup >= 1 - NOISE]

    for name, settings in candidates:
        trial = bench.measure(name, settings, write(settings, (), False))
        if trial.score.drop > max_drop:
            trial.runner = None  # it takes no part in the play-off, and models take memory
        outcome.curve.append(trial)
    misses = [trial for trial in outcome.curve if _is_near_miss(trial, max_drop)]
    if misses and not fit():
        trial = max(misses, key=lambda miss: miss.speedup)
        name, settings = trial.name, dict(candidates)[trial.name]
        order = sensitive(trial.written, settings)
        for share in (0.0, *SHARES):
            if trial.score.drop <= max_drop or not order:
                break
            count = math.ceil(share * len(order))
            change = f"{count} layers in float" if count else "weights rounded with care"
            trial = bench.measure(f"{name}, {change}", settings, write(settings, order[:count], True))
            outcome.curve.append(trial)
    outcome.best = _play_off(fit(), bench)
    return outcome


def _play_off(trials: Sequence[Trial], bench: Bench) -> Trial | None:
    """The fastest; of those that are as fast the smallest, of those that are as small the one with the least error.

    Where no latency counts, computing with integers is taken to be faster than storing them.
    """
    if not trials:
        return None
    if bench.original is None:
        with_integers = [trial for trial in trials if trial.written.quantized]
        return _best_of(with_integers or trials)
    fastest = max(trial.speedup for trial in trials)
    final = [trial for trial in trials if trial.speedup >= fastest / PLAY_OFF and trial.runner is not None]
    feeds = bench.references[0].feeds
    times = latencies(*(functools.partial(trial.runner.run, feeds) for trial in final if trial.runner is not None))
    for trial, latency in zip(final, times, strict=True):
        trial.final_ms = latency
    near = [trial for trial, latency in zip(final, times, strict=True) if latency <= min(times) * (1 + NOISE)]
    return _best_of(near)


def _best_of(trials: Sequence[Trial]) -> Trial:
    smallest = min(trial.size for trial in trials)
    return max(
        (trial for trial in trials if trial.size <= smallest * SAME_SIZE),
        key=lambda trial: (trial.score.sqnr_db, -trial.size),
    )


def _is_near_miss(trial: Trial, max_drop: float) -> bool:
    return max_drop < trial.score.drop <= HOPELESS * max_drop and bool(trial.written.quantized)


def weight_bytes(model: ir.Model) -> int:
    """Bytes of all initializers, those of subgraphs included."""
    total = 0
    for graph in model.graphs():
        total += sum(value.const_value.nbytes for value in graph.initializers.values() if value.const_value is not None)
    return total
