"""The Swift package that makes a bundle for Apple's systems one that Xcode takes in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable

FOLDER = "swift"
"""The folder of the sources, here and in a bundle; the package's own description lies beside it there."""
DESCRIPTION = "Package.swift"
_MODELS = '.copy("model.mlpackage")'
"""What stands in the description for the resources that hold models."""


def app_package(models: Sequence[str]) -> Mapping[str, str]:
    """Path in the bundle and text of each file of the package.

    Args:
        models: The models, relative to the bundle; one that lies in a folder ships with all that is in that folder.
    """
    found = dict(_files_below(files("edgekit_mlprogram").joinpath(FOLDER), f"{FOLDER}/"))
    resources = ", ".join(f'.copy("{model.partition("/")[0]}")' for model in models)
    description = found.pop(f"{FOLDER}/{DESCRIPTION}")
    return {DESCRIPTION: description.replace(_MODELS, resources), **found}


def _files_below(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files_below(entry, f"{path}{entry.name}/")
        else:
            yield f"{path}{entry.name}", entry.read_text(encoding="utf-8")
