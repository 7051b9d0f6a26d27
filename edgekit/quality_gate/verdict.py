"""The result of comparing one figure with one budget."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """The outcome for one budget."""

    KEPT = "kept"
    BROKEN = "broken"
    """Broken, or not shown to be kept because nothing was measured."""
    INCONCLUSIVE = "inconclusive"
    """Measured, but not clearly kept or broken."""
    NOT_COMPARED = "not compared"
    """The comparison was not asked for and cannot be made; the verdict says why."""


@dataclass(frozen=True)
class Figure:
    """The numbers of a verdict, for programs."""

    key: str
    """The budget's key in the project file."""
    unit: str
    """``bytes``, ``ms``, ``dB``, ``pieces``; ``share`` for 0 to 1, ``ratio`` for a multiple of another model's time."""
    limit: float
    value: float | None = None
    """What was found; None if nothing was measured."""
    lower: float | None = None
    """The proven lower bound of the value; None if there is none."""
    upper: float | None = None

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``, which has no infinity: an infinite bound is null, an infinite value a text."""
        numbers = {name: value for name, value in asdict(self).items() if name not in ("key", "unit")}
        return {
            "key": self.key,
            "unit": self.unit,
            **{name: _plain(value, as_text=name == "value") for name, value in numbers.items()},
        }


def _plain(number: float | None, *, as_text: bool) -> float | str | None:
    if number is None or math.isfinite(number):
        return number
    return str(number) if as_text else None


@dataclass(frozen=True)
class Verdict:
    """One budget, compared with what was found."""

    budget: str
    limit: str
    found: str
    outcome: Outcome
    figure: Figure | None = None
    """The verdict's numbers; None if there are none."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "budget": self.budget,
            "limit": self.limit,
            "found": self.found,
            "outcome": str(self.outcome),
            "figure": None if self.figure is None else self.figure.as_record(),
        }


def verdict_on(budget: str, limit: str, found: str, kept: bool, figure: Figure | None = None) -> Verdict:
    """A verdict that is either kept or broken."""
    return Verdict(budget, limit, found, Outcome.KEPT if kept else Outcome.BROKEN, figure)
