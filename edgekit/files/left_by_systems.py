"""Files that Windows and macOS put into folders that are opened there, and into archives."""

from __future__ import annotations

from collections.abc import Sequence

_NAMES = {"__macosx", "desktop.ini", "ehthumbs.db", "icon\r", "thumbs.db"}
_HIDDEN = ".ds_store"
_BESIDE_A_FILE = "._"
"""How macOS begins the name of the file that holds another file's attributes, on file systems without attributes."""


def is_left_by_system(parts: Sequence[str]) -> bool:
    """Whether Windows or macOS put a file there, by the parts of its path, regardless of case."""
    return any(
        part.casefold() in _NAMES or part.casefold() == _HIDDEN or part.startswith(_BESIDE_A_FILE) for part in parts
    )
