"""The check that ships in Core ML bundles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable

from edgekit.device_check.python_check import python_check
from edgekit.target import DeviceCheck

SWIFT = "swift"
"""The folder of the Swift sources, among the assets and in a bundle; ``Package.swift`` lies beside it there."""


def device_check() -> DeviceCheck:
    """A Python program for a Mac that needs NumPy and coremltools only, and a Swift package for Xcode."""
    check = python_check("edgekit_coreml")
    return replace(check, files={**check.files, **dict(_swift_package())})


def _swift_package() -> Iterator[tuple[str, str]]:
    """Path in the bundle and text of each file of the package."""
    folder = files("edgekit_coreml").joinpath("assets", SWIFT)
    for path, file in _files_below(folder, ""):
        yield path if path == "Package.swift" else f"{SWIFT}/{path}", file.read_text(encoding="utf-8")


def _files_below(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files_below(entry, f"{path}{entry.name}/")
        else:
            yield f"{path}{entry.name}", entry
