"""Recognizes pointers of Git LFS: small texts in place of files that were not fetched."""

from __future__ import annotations

from pathlib import Path

MAGIC = b"version https://git-lfs"
"""How a pointer begins."""
MOST_BYTES = 1024
"""A pointer has fewer bytes than this, by Git LFS's specification."""
FETCHING = "`git lfs pull`"
"""The command that fetches the files themselves."""


def begins_as_pointer(start: bytes) -> bool:
    """Whether the first bytes of a file are those of a pointer."""
    return start.startswith(MAGIC)


def is_pointer(file: Path) -> bool:
    """Whether the file is a pointer."""
    if file.stat().st_size >= MOST_BYTES:
        return False
    with file.open("rb") as opened:
        return begins_as_pointer(opened.read(len(MAGIC)))
