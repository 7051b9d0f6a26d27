"""Files that Windows and macOS leave in the folders that somebody looks at, and in archives."""

from __future__ import annotations

from collections.abc import Sequence

_NAMES = {"__macosx", "desktop.ini", "ehthumbs.db", "icon\r", "thumbs.db"}
_HIDDEN = ".ds_store"
_BESIDE_A_FILE = "._"
"""What the name begins with that macOS gives to a file's attributes, on file systems that hold none."""


def is_left_by_system(parts: Sequence[str]) -> bool:
    """Whether a path, by the names on its way, is such a file, without regard to case."""
    return any(
        part.casefold() in _NAMES or part.casefold() == _HIDDEN or part.startswith(_BESIDE_A_FILE) for part in parts
    )
