"""Judges a bundle's latency: measures it in pairs with what it is compared to, until every limit is settled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgekit.bundle import Bundle
from edgekit.bundle_checks.original import original_of
from edgekit.config import Budget
from edgekit.devices.local import open_runner
from edgekit.execution.recurrence import reference_of
from edgekit.model import Arrays
from edgekit.progress import Step
from edgekit.quality_gate.baseline import MachineRatio
from edgekit.quality_gate.machine import Machine
from edgekit.quality_gate.measuring import Limit, Ratio, measure_ratio
from edgekit.quality_gate.verdict import Outcome, Verdict, verdict_on
from edgekit.registry import find_profile

STAND_IN = "not measured: the device's own runtime is not on this machine"
NO_ORIGINAL = "not measured: the original is not at hand (--model names it)"
BASELINE_SPREAD = 0.01
"""How exactly a baseline's ratio is wanted: bounds within so much of it."""

_RATIO = "latency"
_GROWTH = "latency growth"


@dataclass(frozen=True)
class Stopwatch:
    """How measurements are made."""

    seconds: float
    """The most that one may take."""
    step: Step | None = None

    def ratio(self, built: Callable[[], object], other: Callable[[], object], clear: Callable[[Ratio], bool]) -> Ratio:
        """The ratio of two models' times."""
        return measure_ratio(built, other, clear, seconds=self.seconds, step=self.step)


@dataclass(frozen=True)
class EarlierRatios:
    """What a baseline file knows of the bundle's latency."""

    machine: Machine
    """The one that executes this."""
    here: MachineRatio | None
    """Measured on such a machine."""
    elsewhere: tuple[Machine, ...]


@dataclass(frozen=True)
class Rivals:
    """What a bundle's latency is compared to; None where it is not at hand."""

    original: Path | None = None
    """The float model, executed by ONNX Runtime."""
    bundle: Bundle | None = None
    """An earlier build."""
    baseline: EarlierRatios | None = None
    """An earlier build's figures."""


@dataclass(frozen=True)
class _Asked:
    """One limit, and the words for it."""

    budget: str
    text: str
    limit: Limit


Clear = Callable[[Ratio], bool]
Way = Callable[[Clear], Ratio] | str
"""Measures a ratio until it is clear enough; or says why it cannot be measured."""


def judge_latency(
    bundle: Bundle, budget: Budget, growth_asked: bool, rivals: Rivals, stopwatch: Stopwatch
) -> tuple[list[Verdict], list[Ratio]]:
    """A verdict for each limit of latency, and the ratios that were measured for them.

    Args:
        bundle: What is judged.
        budget: What is asked; its growth counts where there is something to compare with.
        growth_asked: Whether the project asks for the growth, so that it must be measured.
        rivals: What it is compared to.
        stopwatch: How it is measured.

    Raises:
        InputError: ``rivals.original`` is not the bundle's original.
    """
    runs_here = counts_here(bundle)
    growth = budget.latency_growth if runs_here or growth_asked else None
    original: Way = NO_ORIGINAL
    if not runs_here:
        original = STAND_IN
    elif rivals.original is not None:
        original = partial(ratio_to_original, bundle, rivals.original, stopwatch)
    verdicts, ratios = _judged(_asked_of_original(budget, growth, rivals), original)
    if growth is not None and rivals.bundle is not None:
        text, limit = f"at most {growth:.1%} above {rivals.bundle.path}", Limit(1 + growth, 1 + growth)
        other = partial(_ratio_to_bundle, bundle, rivals.bundle, stopwatch) if runs_here else STAND_IN
        more_verdicts, more_ratios = _judged([_Asked(_GROWTH, text, limit)], other)
        verdicts, ratios = verdicts + more_verdicts, ratios + more_ratios
    elif growth is not None and (baseline := rivals.baseline) is not None and baseline.here is None:
        verdicts += [_unknown_machine(growth, baseline)] if baseline.elsewhere or growth_asked else []
    return verdicts, ratios


def _asked_of_original(budget: Budget, growth: float | None, rivals: Rivals) -> list[_Asked]:
    """The limits of the ratio to the original."""
    asked = []
    if budget.latency_ratio is not None:
        text = f"at most {budget.latency_ratio:.2f} of the float model's"
        asked.append(_Asked(_RATIO, text, Limit(budget.latency_ratio, budget.latency_ratio)))
    known = None if rivals.baseline is None or rivals.bundle is not None else rivals.baseline.here
    if growth is not None and known is not None:  # the baseline's ratio is known within bounds, and so is the limit
        text = f"at most {growth:.1%} above {known.ratio:.3f} ({known.lower:.3f} – {known.upper:.3f})"
        asked.append(_Asked(_GROWTH, text, Limit(known.lower * (1 + growth), known.upper * (1 + growth))))
    return asked


def _judged(asked: Sequence[_Asked], way: Way) -> tuple[list[Verdict], list[Ratio]]:
    """A verdict for each limit, by one measurement for all of them."""
    if not asked:
        return [], []
    if isinstance(way, str):
        return [verdict_on(one.budget, one.text, way, False) for one in asked], []
    ratio = way(lambda ratio: all(one.limit.settled_by(ratio) for one in asked))
    return [Verdict(one.budget, one.text, ratio_text(ratio), _outcome(one.limit, ratio)) for one in asked], [ratio]


def _outcome(limit: Limit, ratio: Ratio) -> Outcome:
    if limit.kept_by(ratio):
        return Outcome.KEPT
    return Outcome.BROKEN if limit.broken_by(ratio) else Outcome.INCONCLUSIVE


def counts_here(bundle: Bundle) -> bool:
    """Whether the device's own runtime executes on this machine."""
    _, profile = find_profile(bundle.profile_name)
    return profile.runs_here


def ratio_to_original(bundle: Bundle, original: Path, stopwatch: Stopwatch, clear: Clear) -> Ratio:
    """The bundle's time as a multiple of the original's in ONNX Runtime, on the first golden sample.

    Raises:
        InputError: ``original`` is not the bundle's original.
    """
    feeds = _feeds(bundle)
    reference = reference_of(original_of(bundle, original), fast=True)
    return stopwatch.ratio(partial(open_runner(bundle).run, feeds), partial(reference.run, feeds), clear)


def precise_enough(ratio: Ratio) -> bool:
    """Whether the ratio is known as exactly as a baseline wants it."""
    return not ratio.contradictory and ratio.spread <= BASELINE_SPREAD


def _ratio_to_bundle(bundle: Bundle, other: Bundle, stopwatch: Stopwatch, clear: Clear) -> Ratio:
    built = partial(open_runner(bundle).run, _feeds(bundle))
    return stopwatch.ratio(built, partial(open_runner(other).run, _feeds(other)), clear)


def _feeds(bundle: Bundle) -> Arrays:
    """The inputs of the first golden sample."""
    inputs, _ = next(bundle.golden())
    return inputs


def _unknown_machine(growth: float, baseline: EarlierRatios) -> Verdict:
    known = "; ".join(map(str, baseline.elsewhere)) or "no machine"
    found = f"the baseline was measured on {known}, not on {baseline.machine}"
    return Verdict(_GROWTH, f"at most {growth:.1%} above the baseline's", found, Outcome.INCONCLUSIVE)


def ratio_text(ratio: Ratio) -> str:
    """The ratio with its bounds, and what they come from."""
    pairs = f"{ratio.pairs} pairs in {ratio.seconds:.1f} s"
    if ratio.contradictory:
        return f"{ratio.median:.3f}, changing while it was measured, {pairs}"
    upper = f"{ratio.upper:.3f}" if math.isfinite(ratio.upper) else "∞"
    return f"{ratio.median:.3f} ({ratio.lower:.3f} – {upper}), {pairs}"
