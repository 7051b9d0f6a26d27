"""Helps with names that nothing has: says which ones were probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LISTED_NAMES = 20
"""How many names to list where none is near."""
LEAST_PART = 3
"""Shorter texts stand in too many names."""


def near_names(wanted: str, known: Iterable[str]) -> str:
    """The known names that look like ``wanted``, or all of them where none does, as an error's ``expected``."""
    by_folded = {name.casefold(): name for name in known}
    folded_name = wanted.casefold()
    near = (
        difflib.get_close_matches(folded_name, by_folded, n=3)
        or [folded for folded in by_folded if len(folded_name) >= LEAST_PART and folded_name in folded][:3]
    )
    if near:
        return " or ".join(repr(by_folded[folded]) for folded in near)
    names = list(by_folded.values())
    more = f", … ({len(names) - LISTED_NAMES} more)" if len(names) > LISTED_NAMES else ""
    return f"one of {', '.join(names[:LISTED_NAMES])}{more}"
