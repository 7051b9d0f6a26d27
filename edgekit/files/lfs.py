"""Git LFS leaves a small text in place of a file that was not fetched."""

from __future__ import annotations

from pathlib import Path

MAGIC = b"version https://git-lfs"
"""What such a text begins with."""
MOST_BYTES = 1024
"""Of what Git LFS's specification says that such a text has fewer bytes."""
FETCHING = "`git lfs pull`"
"""What fetches the files themselves."""


def begins_as_pointer(start: bytes) -> bool:
    """Whether the first bytes of a file are those of such a text."""
    return start.startswith(MAGIC)


def is_pointer(file: Path) -> bool:
    """Whether such a text stands in place of the file."""
    if file.stat().st_size >= MOST_BYTES:
        return False
    with file.open("rb") as opened:
        return begins_as_pointer(opened.read(len(MAGIC)))
