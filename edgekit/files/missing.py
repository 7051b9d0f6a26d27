"""What to say of a path that leads to nothing: how it was written may be the reason."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path, PureWindowsPath

_MOST_NAMES = 10_000
_ESCAPED = "\b\t\n\f\r"
"""What a backslash and a letter stand for in TOML."""

_URL = re.compile(r"(https?|ftp|file|s3|gs|hf):/", re.IGNORECASE)
"""The beginning of an address, whose second slash paths leave out."""


def hint_for_missing(path: Path) -> str | None:
    """What to do about a path that is not there; None where nothing tells.

    Looked for are what stands for stdin, addresses of the web, the escapes that a backslash begins in a project file's
    double quotes, backslashes between folders where the system takes them for letters, and names that differ in
    capital letters alone.
    """
    text = str(path)
    if os.path.islink(path):  # noqa: PTH114  # False where a folder cannot be read
        return f"it is a link to {path.readlink()}, which leads to nothing"
    if text == "-":
        return "commands read no stdin: write it to a file, and give that"
    if _URL.match(text):
        return "commands read files, and no addresses: download it, and give the file"
    if any(letter in _ESCAPED for letter in text):
        return (
            "a backslash in double quotes begins an escape, such as \\n for a line break: write / between folders, or "
            "put the path in single quotes"
        )
    if "\\" in text and os.sep == "/":
        return f"write / between folders: {PureWindowsPath(text).as_posix()}"
    other = _in_other_letters(path)
    return None if other is None else f"capital letters count: {other} is there"


def _in_other_letters(path: Path) -> Path | None:
    """What is there with the same letters, capital or not, along the whole path."""
    if os.path.exists(path):  # noqa: PTH110  # False where a name is too long
        return path
    if path.parent == path:
        return None
    folder = _in_other_letters(path.parent)
    if folder is None:
        return None
    try:
        names = [entry.name for entry in islice(folder.iterdir(), _MOST_NAMES)]
    except OSError:
        return None
    found = sorted(name for name in names if name.casefold() == path.name.casefold())
    return folder / found[0] if found else None
