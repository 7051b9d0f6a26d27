"""Finds the fastest model that holds the accuracy budget on the target, and is not slower than float."""

from __future__ import annotations

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

NOISE = 0.03
"""Two latencies that differ by less than this share are the same: the machine's own noise is as large."""
HOPELESS = 10
"""A candidate that loses more than so many times the budget is not brought back by a few layers in float."""
SHARES = (0.1, 0.25, 0.5)
"""Shares of the integer layers that go back to float, the most sensitive first, where the budget is not held."""

Open = Callable[[ir.Model], Runner]
Write = Callable[[Settings, Collection[str]], Written]


@dataclass
class Trial:
    """A candidate that was measured."""

    name: str
    written: Written
    score: Score
    latency_ms: float | None = None
    float_ms: float | None = None
    """Latency of the float model, measured in turns with it."""
    size: int = 0

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

    def measure(self, name: str, written: Written) -> Trial:
        """Build, score and time a candidate."""
        runner = self.open(written.model)
        trial = Trial(name, written, score(runner.run, self.references, classes=self.classes), size=weight_bytes(written.model))
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
    """Measure the candidates, give sensitive layers of the fastest near miss back to float, choose the fastest.

    Of candidates that are as fast as each other the smallest is chosen, and of those the one with the least error.

    Args:
        bench: What they are judged with.
        candidates: Name and settings of each.
        write: Writes a candidate with the named layers kept in float.
        sensitive: A candidate's integer layers, the one that adds the largest error first.
        max_drop: What may be lost of the metric.
        speed_counts: Whether a candidate that is slower than float is out.
    """
    outcome = Outcome(None)

    def fit() -> list[Trial]:
        held = [trial for trial in outcome.curve if trial.score.drop <= max_drop]
        return [trial for trial in held if not speed_counts or trial.speedup >= 1 - NOISE]

    def gains(trial: Trial) -> bool:
        return trial.speedup > max((known.speedup for known in fit()), default=1.0) * (1 + NOISE)

    for name, settings in candidates:
        outcome.curve.append(bench.measure(name, write(settings, ())))
    misses = [trial for trial in outcome.curve if _is_near_miss(trial, max_drop)]
    if misses:
        trial = max(misses, key=lambda miss: miss.speedup)
        name, settings = trial.name, dict(candidates)[trial.name]
        order = sensitive(trial.written, settings)
        for share in SHARES:
            if trial.score.drop <= max_drop or not gains(trial):
                break
            count = max(1, round(share * len(order)))
            trial = bench.measure(f"{name}, {count} layers in float", write(settings, order[:count]))
            outcome.curve.append(trial)
    if found := fit():
        fastest = max(trial.speedup for trial in found)
        near = [trial for trial in found if trial.speedup >= fastest * (1 - NOISE)]
        outcome.best = min(near, key=lambda trial: (trial.size, -trial.score.sqnr_db))
    return outcome


def _is_near_miss(trial: Trial, max_drop: float) -> bool:
    return max_drop < trial.score.drop <= HOPELESS * max_drop and bool(trial.written.quantized)


def weight_bytes(model: ir.Model) -> int:
    """Bytes of all initializers, those of subgraphs included."""
    total = 0
    for graph in model.graphs():
        total += sum(value.const_value.nbytes for value in graph.initializers.values() if value.const_value is not None)
    return total
