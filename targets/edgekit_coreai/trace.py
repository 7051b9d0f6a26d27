"""A note of what a process is about to do, kept in a file so that it survives a crash of the process."""

from __future__ import annotations

import mmap
import os

_SIZE = 4096


class Trace:
    """A short text in a file that two processes have open.

    Args:
        descriptor: Descriptor of the open file; a text that the file already holds is kept.
    """

    def __init__(self, descriptor: int) -> None:
        os.truncate(descriptor, _SIZE)
        self._memory = mmap.mmap(descriptor, _SIZE)

    def note(self, text: str) -> None:
        """Replace the text."""
        data = text.encode("utf-8", "replace")[: _SIZE - 1]
        self._memory[: len(data) + 1] = data + b"\0"

    def read(self) -> str:
        """The text."""
        return bytes(self._memory).split(b"\0", 1)[0].decode("utf-8", "replace")
