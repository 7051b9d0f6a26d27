"""Checks the keys of device files: a misspelled key is an error, and not ignored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def refuse_others(where: str, data: Mapping[str, Any], known: Collection[str]) -> None:
    """Checks that an object only has known keys.

    Args:
        where: The name of the object, for the message.
        data: The object.
        known: The keys that it may have.

    Raises:
        ValueError: It has another key, or is no object.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: {data!r} is not an object")
    others = sorted(set(data) - set(known))
    if others:
        is_or_are = "is" if len(others) == 1 else "are"
        raise ValueError(f"{where}: {', '.join(others)} {is_or_are} not known; expected {', '.join(sorted(known))}")
