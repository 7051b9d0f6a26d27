"""What a process is about to do, kept where it survives a crash of the process."""

from __future__ import annotations

import mmap
from pathlib import Path

_SIZE = 4096


class Trace:
    """A short text in a file that two processes see.

    Args:
        path: The file; made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SIZE)

    def note(self, text: str) -> None:
        """Replace the text."""
        data = text.encode("utf-8", "replace")[: _SIZE - 1]
        self._memory[: len(data) + 1] = data + b"\0"

    def read(self) -> str:
        """The text."""
        return bytes(self._memory).split(b"\0", 1)[0].decode("utf-8", "replace")
