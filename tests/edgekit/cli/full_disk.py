"""A log on a disk that is full."""

from __future__ import annotations

import errno
import io
import os


class FullDisk(io.StringIO):
    """A stream that takes nothing, as ``/dev/full`` does."""

    def write(self, text: str, /) -> int:
        """Raises the error that the system raises for a full disk."""
        del text
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
