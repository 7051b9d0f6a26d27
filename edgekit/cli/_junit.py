"""``--junit``: the file that CI services read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JUnitOption = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML as well.", show_default=False)
]


def write_junit(file: Path, document: str) -> None:
    """Writes the document, whole or not at all.

    Raises:
        InputError: The file cannot be written.
    """
    from edgekit.files.atomic import atomic_file

    with atomic_file(file) as place:
        place.write_text(document, encoding="utf-8")
