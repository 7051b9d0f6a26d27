"""Verdicts on limits that need an earlier build if there is none: a limit that is set never passes silently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from edgekit.config import Budget
from edgekit.quality_gate.verdict import Outcome, Verdict
from edgekit.units import limit_text, share_limit_text

NO_EARLIER = "no earlier build to compare with"
"""How the verdicts begin for which nothing was compared."""
UPDATING = "--update writes the baseline, and compares with no earlier build"


def judge_without_earlier(asked: Budget, *, updating: bool = False, folder: Path | None = None) -> Iterator[Verdict]:
    """A verdict for each limit of ``asked`` that an earlier build is needed for.

    Args:
        asked: The budget.
        updating: Whether the bundle becomes the baseline: no comparison is expected then. Otherwise the verdicts are
            inconclusive, and the project decides whether that fails.
        folder: The folder that should hold the earlier bundle. That it is missing there is a verdict of its own: the
            bundle is new or was renamed, and would otherwise pass as if it had been compared.
    """
    outcome = Outcome.NOT_COMPARED if updating else Outcome.INCONCLUSIVE
    found = UPDATING if updating else f"{NO_EARLIER} (--baseline or --against names one)"
    if folder is not None and not updating:
        found = f"{NO_EARLIER}: {folder} holds no bundle of this name; it is new, or was renamed"
        yield Verdict("earlier build", "compared with one", found, outcome)
    limits = (
        ("size growth", asked.size_growth, share_limit_text, 1, "at most {} above the earlier build's"),
        ("accuracy fall", asked.accuracy_fall, share_limit_text, 2, "at most {} below the earlier build's"),
        ("agreement", asked.agreement_db, limit_text, 1, "at least {} dB to the earlier build's golden outputs"),
        ("latency growth", asked.latency_growth, share_limit_text, 1, "at most {} above the earlier build's"),
    )
    for budget, value, text, decimals, limit in limits:
        if value is not None:
            yield Verdict(budget, limit.format(text(value, decimals)), found, outcome)
