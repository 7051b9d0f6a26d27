"""Judges a bundle by its budget: what CI asks before it lets a model ship."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgekit.atomic import atomic_file
from edgekit.bundle import Bundle
from edgekit.config import Budget
from edgekit.errors import InputError
from edgekit.report.summary import STAND_IN, bytes_text, worst_db
from edgekit.schema import find_flaw

BASELINE_VERSION = 1

GROWTH = Budget(size_growth=0.01, accuracy_fall=0.005, latency_growth=0.1)
"""What a bundle may lose to its baseline where the project does not say: 1 % of size, half a point of accuracy, a tenth
of latency."""


@dataclass(frozen=True)
class Figures:
    """What a bundle is judged by; None where it was not measured."""

    size: int
    accuracy: float | None
    """Share of labels found."""
    latency_ratio: float | None
    """P50 over the float model's; None where a stand-in executed."""

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Figures:
        """The figures in a manifest."""
        task, latency = manifest["accuracy"]["task"], manifest["latency"]
        return cls(
            size=manifest["size"]["bytes"],
            accuracy=None if task is None else task["built"],
            latency_ratio=latency["ratio"] if latency["of_device"] else None,
        )


@dataclass(frozen=True)
class Verdict:
    """One budget, held against what was found."""

    budget: str
    limit: str
    found: str
    passed: bool

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return asdict(self)


def judge(bundle: Bundle, budget: Budget, baseline: Figures | None) -> list[Verdict]:
    """One verdict for each budget that is set. What was not measured does not pass.

    Args:
        bundle: What is judged, by its manifest.
        budget: What is asked.
        baseline: Figures of an earlier build; None where there are none.
    """
    verdicts = list(_absolute(bundle.manifest, budget))
    if baseline is not None:
        verdicts += _relative(Figures.of(bundle.manifest), budget.over(GROWTH), baseline)
    return verdicts


def _absolute(manifest: Mapping[str, Any], budget: Budget) -> Iterator[Verdict]:
    figures, task = Figures.of(manifest), manifest["accuracy"]["task"]
    if budget.size is not None:
        limit = f"at most {bytes_text(budget.size)}"
        yield Verdict("size", limit, bytes_text(figures.size), figures.size <= budget.size)
    if budget.accuracy is not None:
        yield _at_least("accuracy", budget.accuracy, figures.accuracy)
    if budget.accuracy_drop is not None:
        drop = None if task is None else task["drop"]
        yield _at_most("accuracy drop", f"{budget.accuracy_drop:.2%}", budget.accuracy_drop, drop, "{:.2%}", _NO_LABELS)
    if budget.sqnr_db is not None:
        worst = worst_db(manifest["accuracy"])
        found = "no floating-point output" if worst is None else f"{float(worst):.1f} dB"
        reached = worst is not None and float(worst) >= budget.sqnr_db
        yield Verdict("worst output", f"at least {budget.sqnr_db:.1f} dB", found, reached)
    if budget.latency_ratio is not None:
        limit = f"{budget.latency_ratio:.2f} of the float model's"
        yield _at_most("latency", limit, budget.latency_ratio, figures.latency_ratio, "{:.2f}", STAND_IN)


def _relative(figures: Figures, budget: Budget, baseline: Figures) -> Iterator[Verdict]:
    if budget.size_growth is not None:
        most = baseline.size * (1 + budget.size_growth)
        limit = f"at most {budget.size_growth:.1%} above {bytes_text(baseline.size)}"
        yield Verdict("size growth", limit, bytes_text(figures.size), figures.size <= most)
    if budget.accuracy_fall is not None and baseline.accuracy is not None:
        yield _at_least("accuracy fall", baseline.accuracy - budget.accuracy_fall, figures.accuracy)
    if budget.latency_growth is not None and baseline.latency_ratio is not None:
        most = baseline.latency_ratio * (1 + budget.latency_growth)
        limit = f"{most:.2f}, {budget.latency_growth:.0%} above the baseline's ratio"
        yield _at_most("latency growth", limit, most, figures.latency_ratio, "{:.2f}", STAND_IN)


_NO_LABELS = "not measured: the samples had no labels"


def _at_least(name: str, least: float, found: float | None) -> Verdict:
    text = _NO_LABELS if found is None else f"{found:.2%}"
    return Verdict(name, f"at least {least:.2%}", text, found is not None and found >= least)


def _at_most(name: str, limit: str, most: float, found: float | None, form: str, missing: str) -> Verdict:
    text = missing if found is None else form.format(found)
    return Verdict(name, f"at most {limit}", text, found is not None and found <= most)


def read_baseline(path: Path) -> dict[str, Figures]:
    """The figures that :func:`write_baseline` left, by the bundle's name.

    Raises:
        InputError: The file is missing or is no baseline.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            "there is no baseline", subject=path, hint=f"`edgekit gate BUNDLE --baseline {path} --update` writes one"
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", subject=path) from error
    flaw = find_flaw(document, "baseline.schema.json")
    if flaw is not None:
        raise InputError("is no baseline", subject=path, found=flaw)
    return {name: Figures(**figures) for name, figures in document["bundles"].items()}


def write_baseline(path: Path, name: str, figures: Figures) -> None:
    """Puts a bundle's figures into a baseline file; those of other bundles stay.

    Raises:
        InputError: The file is there and is no baseline, or cannot be written.
    """
    bundles = read_baseline(path) if path.exists() else {}
    bundles[name] = figures
    document = {
        "schema_version": BASELINE_VERSION,
        "bundles": {known: asdict(bundles[known]) for known in sorted(bundles)},
    }
    with atomic_file(path) as place:
        place.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
