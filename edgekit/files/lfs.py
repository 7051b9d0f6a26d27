"""Git LFS leaves a small text in place of a file that was not fetched."""

from __future__ import annotations

from pathlib import Path

MAGIC = b"version https://git-lfs"
"""What such a text begins with."""
FETCHING = "`git lfs pull`"
"""What fetches the files themselves."""


def is_pointer(file: Path) -> bool:
    """Whether such a text stands in place of the file."""
    with file.open("rb") as opened:
        return opened.read(len(MAGIC)) == MAGIC
