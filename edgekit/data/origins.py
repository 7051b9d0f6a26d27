"""What errors call the files that samples of a list or a table are written to for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from edgekit.errors import EdgeKitError


@contextmanager
def named_by_origin(origins: Mapping[Path, str]) -> Iterator[None]:
    """Has errors about files name what was written there: a row of a table, say, in place of a temporary file.

    Args:
        origins: By the file, or the folder, what it was made of; it may grow within the block.

    Raises:
        EdgeKitError: What the block raises, with its subject exchanged.
    """
    try:
        yield
    except EdgeKitError as error:
        if error.subject is not None:
            error.subject = origins.get(Path(error.subject), error.subject)
        raise
