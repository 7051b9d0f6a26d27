"""What comes of holding one figure against one budget."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Verdict:
    """One budget, held against what was found."""

    budget: str
    limit: str
    found: str
    outcome: Outcome

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return asdict(self)


def verdict_on(budget: str, limit: str, found: str, kept: bool) -> Verdict:
    """A verdict that is clear."""
    return Verdict(budget, limit, found, Outcome.KEPT if kept else Outcome.BROKEN)
