"""Recognizes a bundle's folder by its manifest, of any version, so that nothing is written into one by accident."""

from __future__ import annotations

import os
from pathlib import Path

from edgekit.errors import InputError
from edgekit.files.regular_file import read_json

MANIFEST = "manifest.json"


def listed_files(folder: Path) -> set[str] | None:
    """The files that a bundle's manifest lists, of any version of EdgeKit; None if there is no such manifest."""
    try:
        manifest = read_json(folder / MANIFEST)
        listed = {str(record["path"]) for record in manifest["files"]}
        version, _ = manifest["schema_version"], manifest["edgekit"]
    except (InputError, KeyError, TypeError):
        return None
    return listed if isinstance(version, int) and listed else None


def require_outside_bundles(path: Path) -> None:
    """Checks that an output does not go into a bundle: a bundle with a file that its manifest does not list is refused.

    Args:
        path: The output; links are followed.

    Raises:
        InputError: A folder above the output is a bundle.
    """
    for folder in Path(os.path.realpath(path)).parents:
        if os.path.isfile(folder / MANIFEST) and listed_files(folder) is not None:  # noqa: PTH113  # False if the folder may not be read
            raise InputError(
                "lies in a bundle, which holds the files of its manifest and no others",
                subject=path,
                expected="a place outside of bundles",
                found=f"the bundle {folder}",
                hint="choose another place; `edgekit package -o` makes a bundle anew",
            )
