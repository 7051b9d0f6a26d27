"""What comes of holding one figure against one budget."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How a budget fared."""

    KEPT = "kept"
    BROKEN = "broken"
    """Broken, or not shown to be kept because nothing was measured."""
    INCONCLUSIVE = "inconclusive"
    """Measured, and the answer is not clear."""
    NOT_COMPARED = "not compared"
    """Nobody asked for it, and it cannot be compared; people are told why."""


@dataclass(frozen=True)
class Figure:
    """What a verdict says in words, in numbers for programs."""

    key: str
    """The budget's key in the project file."""
    unit: str
    """``bytes``, ``ms``, ``dB``, ``pieces``; ``share`` for 0 to 1, ``ratio`` for a multiple of another model's time."""
    limit: float
    value: float | None = None
    """What was found; None where nothing was measured."""
    lower: float | None = None
    """Where the value surely lies above; None where that is not known."""
    upper: float | None = None

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``, which has no infinity: a bound that is not there is null, and decibels a text."""
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
    """One budget, held against what was found."""

    budget: str
    limit: str
    found: str
    outcome: Outcome
    figure: Figure | None = None
    """The same in numbers; None where there are none."""

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
    """A verdict that is clear."""
    return Verdict(budget, limit, found, Outcome.KEPT if kept else Outcome.BROKEN, figure)
