"""Recognizes text files whose line ends were converted."""

from __future__ import annotations

import hashlib
from pathlib import Path

MOST_BYTES = 64 * 2**20
KEEPING = (
    "a line `* -text` in a file .gitattributes beside the bundle keeps git from it; then check the bundle out again"
)


def has_other_line_ends(file: Path, sha256: str) -> bool:
    """Whether a file of at most 64 MiB has CRLF where the file of that SHA-256 has LF, and is the same otherwise."""
    if file.stat().st_size > MOST_BYTES:
        return False
    return hashlib.sha256(file.read_bytes().replace(b"\r\n", b"\n")).hexdigest() == sha256
