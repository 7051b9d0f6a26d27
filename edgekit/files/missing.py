"""Hints for a path at which there is nothing: the way it was written may be the reason."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path, PureWindowsPath

_MOST_NAMES = 10_000
_ESCAPED = "\b\t\n\f\r"
"""The characters that a backslash and a letter mean in a TOML string."""

_URL = re.compile(r"(https?|ftp|file|s3|gs|hf):/", re.IGNORECASE)
"""The beginning of a URL, whose second slash is lost in a path."""


def is_named(path: Path) -> bool:
    """Whether something other than a folder has that name: a link to nothing is to be refused, not ignored."""
    return os.path.lexists(path) and not path.is_dir()


def hint_for_missing(path: Path) -> str | None:
    """What to do about a path that does not exist; None if no reason is found.

    The reasons that are looked for: a link to nothing, ``-`` for stdin, URLs, escapes that a backslash begins in a
    project file's double quotes, backslashes between folders on systems where they are ordinary characters, and names
    that differ only in case.
    """
    text = str(path)
    if os.path.islink(path):  # noqa: PTH114  # False if a folder cannot be read
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
    """The existing path whose names differ from those of ``path`` at most in case; None if there is none."""
    if os.path.exists(path):  # noqa: PTH110  # False if a name is too long
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
