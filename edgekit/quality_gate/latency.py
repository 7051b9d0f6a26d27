"""Judges a bundle's latency: measures it in pairs with what it is compared with, until every limit is decided."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from edgekit.bundle import Bundle
from edgekit.bundle_checks.benchmark import first_feeds
from edgekit.bundle_checks.original import original_of
from edgekit.config import Budget
from edgekit.devices.local import open_runner
from edgekit.execution.recurrence import reference_of
from edgekit.progress import Step
from edgekit.quality_gate.judging import GROWTH
from edgekit.quality_gate.measuring import Limit, Opening, Ratio, Run, measure_ratio
from edgekit.quality_gate.verdict import Figure, Outcome, Verdict, verdict_on
from edgekit.registry import find_profile
from edgekit.units import limit_text, share_limit_text

STAND_IN = (
    "not measured: the device's own runtime is not on this machine (latency_ms is measured on the device: --device)"
)
NO_ORIGINAL = "not measured: the original is not at hand (--model names it)"
SAME_FILES = "the same model files"

_GROWTH = "latency growth"
_GROWTH_KEY = "latency_growth"


Clear = Callable[[Ratio], bool]


@dataclass(frozen=True)
class Stopwatch:
    """How measurements are made."""

    seconds: float
    """The most seconds that one measurement may take."""
    step: Step | None = None

    def ratio(self, built: Opening, other: Opening, clear: Clear) -> Ratio:
        """The ratio of two models' times."""
        return measure_ratio(built, other, clear, seconds=self.seconds, step=self.step)


@dataclass(frozen=True)
class EarlierBuild:
    """An earlier build."""

    called: str
    """How limits name the earlier build."""
    bundle: Bundle | str
    """The bundle, or why there is none."""
    accepting: str = "--update takes it over"
    """The hint how to accept a changed interface; empty if there is no way to."""

    @property
    def whose(self) -> str:
        """The earlier build's name in the possessive, for limits."""
        return self.called if self.called.endswith("'s") else f"{self.called}'s"


@dataclass(frozen=True)
class LatencyReferences:
    """The models that a bundle's latency is compared with; None for one that is not given."""

    original: Path | None = None
    """The float model, executed by ONNX Runtime."""
    earlier: EarlierBuild | None = None


Way = Callable[[Clear], Ratio] | str
"""A function that measures a ratio until it is clear enough; or the reason why it cannot be measured."""


def judge_latency(
    bundle: Bundle, asked: Budget, references: LatencyReferences, stopwatch: Stopwatch
) -> tuple[list[Verdict], list[Ratio]]:
    """A verdict for each limit of latency, and the ratios that were measured for them.

    Args:
        bundle: The bundle to judge.
        asked: The budget. If it sets no growth of latency, :data:`GROWTH` does, provided that it can be measured here.
        references: The models that the bundle is compared with.
        stopwatch: How latencies are measured.

    Raises:
        InputError: ``references.original`` is not the bundle's original.
    """
    runs_here = counts_here(bundle)
    verdicts: list[Verdict] = []
    ratios: list[Ratio] = []
    if asked.latency_ratio is not None:
        text = f"at most {limit_text(asked.latency_ratio, 2)} times the float model's"
        way: Way = NO_ORIGINAL
        if not runs_here:
            way = STAND_IN
        elif references.original is not None:
            way = partial(_ratio_to_original, bundle, references.original, stopwatch)
        _judge("latency", "latency_ratio", text, asked.latency_ratio, way, verdicts, ratios)
    growth = asked.over(GROWTH).latency_growth if runs_here else asked.latency_growth
    if growth is not None and references.earlier is not None:
        text, earlier = (
            f"at most {share_limit_text(growth, 1)} above {references.earlier.called}",
            references.earlier.bundle,
        )
        if isinstance(earlier, str):
            figure = Figure(_GROWTH_KEY, "ratio", 1 + growth)
            verdicts.append(Verdict(_GROWTH, text, earlier, Outcome.INCONCLUSIVE, figure))
        elif same_model(bundle, earlier):
            figure = Figure(_GROWTH_KEY, "ratio", 1 + growth, 1.0, 1.0, 1.0)
            verdicts.append(verdict_on(_GROWTH, text, SAME_FILES, True, figure))
        else:
            way = partial(_ratio_to_bundle, bundle, earlier, stopwatch) if runs_here else STAND_IN
            _judge(_GROWTH, _GROWTH_KEY, text, 1 + growth, way, verdicts, ratios)
    return verdicts, ratios


def _judge(
    budget: str, key: str, text: str, most: float, way: Way, verdicts: list[Verdict], ratios: list[Ratio]
) -> None:
    """Adds a verdict on a ratio that may be at most ``most``, and the ratio itself if it can be measured."""
    if isinstance(way, str):
        verdicts.append(verdict_on(budget, text, way, False, Figure(key, "ratio", most)))
        return
    limit = Limit(most)
    ratio = replace(way(limit.settled_by), budget=key)
    ratios.append(ratio)
    bounds = (None, None) if ratio.contradictory else (ratio.lower, ratio.upper)
    figure = Figure(key, "ratio", most, ratio.median, *bounds)
    verdicts.append(Verdict(budget, text, ratio_text(ratio), _outcome(limit, ratio), figure))


def same_model(bundle: Bundle, other: Bundle) -> bool:
    """Whether the device loads the same files for both bundles, so that neither can be slower."""
    return bundle.profile_name == other.profile_name and bundle.loaded_files == other.loaded_files


def _outcome(limit: Limit, ratio: Ratio) -> Outcome:
    if limit.kept_by(ratio):
        return Outcome.KEPT
    return Outcome.BROKEN if limit.broken_by(ratio) else Outcome.INCONCLUSIVE


def counts_here(bundle: Bundle) -> bool:
    """Whether the device's own runtime executes on this machine."""
    _, profile = find_profile(bundle.profile_name)
    return profile.runs_here


def _ratio_to_original(bundle: Bundle, original: Path, stopwatch: Stopwatch, clear: Clear) -> Ratio:
    """The bundle's time as a multiple of the original's in ONNX Runtime, on the first golden sample.

    Raises:
        InputError: ``original`` is not the bundle's original.
    """
    feeds, model = first_feeds(bundle), original_of(bundle, original)

    def open_original() -> Run:
        return partial(reference_of(model, fast=True).run, feeds)

    return stopwatch.ratio(opening(bundle), open_original, clear)


def _ratio_to_bundle(bundle: Bundle, other: Bundle, stopwatch: Stopwatch, clear: Clear) -> Ratio:
    return stopwatch.ratio(opening(bundle), opening(other), clear)


def opening(bundle: Bundle) -> Opening:
    """A function that opens the bundle, and returns a function that runs its first golden sample."""
    feeds = first_feeds(bundle)
    return lambda: partial(open_runner(bundle).run, feeds)


def ratio_text(ratio: Ratio) -> str:
    """The ratio with its bounds, and the number of pairs and seconds that they come from."""
    pairs = f"{ratio.pairs} pairs in {ratio.seconds:.1f} s"
    if ratio.contradictory:
        return f"{ratio.median:.3f}, changing while it was measured, {pairs}"
    if not ratio.lower and not math.isfinite(ratio.upper):
        return f"{ratio.median:.3f}, from too few or too uneven measurements for bounds, {pairs}"
    upper = f"{ratio.upper:.3f}" if math.isfinite(ratio.upper) else "∞"
    return f"{ratio.median:.3f} ({ratio.lower:.3f} – {upper}), {pairs}"
