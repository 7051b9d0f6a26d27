"""Suggests which known names were probably meant by an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LISTED_NAMES = 20
"""How many names to list if none is similar."""
MOST_VERSIONS = 6
"""Names that differ from the unknown one only in the number at the end are suggested if there are at most this many."""
LEAST_PART = 3
"""Least length of a text that is looked for in names; shorter texts are part of too many."""


def near_names(wanted: str, known: Iterable[str]) -> str:
    """The known names that look like ``wanted``, else the first known names, as an error's ``expected``."""
    names = list({name.casefold(): name for name in known}.values())
    near = _near(wanted, names)
    if near:
        return " or ".join(map(repr, near))
    more = f", … ({len(names) - LISTED_NAMES} more)" if len(names) > LISTED_NAMES else ""
    return f"one of {', '.join(names[:LISTED_NAMES])}{more}"


def did_you_mean(wanted: str, known: Iterable[str]) -> str | None:
    """A hint with the known names that look like ``wanted``, for errors that list all names; None if none does."""
    near = _near(wanted, known)
    return f"did you mean {' or '.join(near)}?" if near else None


def _near(wanted: str, known: Iterable[str]) -> list[str]:
    """The known names that ``wanted`` may mean: names that begin with it, other versions of it, or similar names."""
    by_folded = {name.casefold(): name for name in known}
    folded_name = wanted.casefold()
    is_part = len(folded_name) >= LEAST_PART
    versions = sorted(folded for folded in by_folded if _stem(folded) == _stem(folded_name) != folded_name)
    near = (
        [folded for folded in by_folded if is_part and folded.startswith(folded_name)][:3]
        or (versions if 1 < len(versions) <= MOST_VERSIONS else [])
        or difflib.get_close_matches(folded_name, by_folded, n=3)
        or [folded for folded in by_folded if is_part and folded_name in folded][:3]
    )
    return [by_folded[folded] for folded in near]


def _stem(name: str) -> str:
    """A name without the number at its end."""
    return name.rstrip("0123456789")
