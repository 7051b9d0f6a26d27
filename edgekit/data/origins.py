"""What errors call the temporary files that samples of a list or a table are written to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from edgekit.errors import EdgeKitError


@contextmanager
def named_by_origin(origins: Mapping[Path, str]) -> Iterator[None]:
    """Makes errors name the origin of a temporary file, a row of a table say, in place of the file.

    Args:
        origins: The origin of each file or folder; entries may be added within the block.

    Raises:
        EdgeKitError: The error that the block raises, with the origin as its subject.
    """
    try:
        yield
    except EdgeKitError as error:
        if error.subject is not None:
            error.subject = origins.get(Path(error.subject), error.subject)
        raise
