"""Copies folders."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_folder(source: Path, folder: Path) -> None:
    """Copies what a folder holds into another one, and ends at the first file that cannot be copied.

    ``shutil.copytree`` goes on, and tells of all of them in one error without a number: a full disk looks like a fault.

    Args:
        source: Holds files and folders.
        folder: Where they go; exists.

    Raises:
        OSError: A file cannot be read or written.
    """
    for path in sorted(source.rglob("*")):
        place = folder / path.relative_to(source)
        if path.is_dir():
            place.mkdir(exist_ok=True)
        else:
            shutil.copy2(path, place)
