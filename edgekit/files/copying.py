"""Copies folders."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_folder(source: Path, folder: Path) -> None:
    """Copies what a folder holds into another one, and stops at the first file that cannot be copied.

    ``shutil.copytree`` goes on, and raises one error for all files without an error number, so that a full disk looks
    like a fault of EdgeKit.

    Args:
        source: The folder whose files and folders are copied.
        folder: The folder that they are copied into, which exists.

    Raises:
        OSError: A file cannot be read or written.
    """
    for path in sorted(source.rglob("*")):
        place = folder / path.relative_to(source)
        if path.is_dir():
            place.mkdir(exist_ok=True)
        else:
            shutil.copy2(path, place)
