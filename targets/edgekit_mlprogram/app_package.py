"""The Swift package that makes a bundle for Apple's systems one that Xcode takes in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable

FOLDER = "swift"
"""The folder of the sources, here and in a bundle; the package's own description lies beside it there."""
DESCRIPTION = "Package.swift"
_MODULE = "PackagedModel"
"""What stands in the sources for the module's name."""
_RESOURCE, _EXCLUDED = '.process("model.mlpackage")', '"manifest.json", "model.mlpackage"'
"""What stands in the description for the models: as resources of one target, and as what the other leaves out."""
_REPORT = '"report.md"'
"""What stands in the description for files that are none of the package's."""
_PLATFORMS = '.iOS("16.0"), .macOS("13.0")'
_PROFILE = re.compile(r"(?:ios|macos)(\d+)")
"""Profiles whose models an app loads; a bundle may hold builds for other devices."""
_SAME_NUMBERS = 26
"""From this version on iOS and macOS have the same number; before, macOS was three behind."""


def app_package(name: str, builds: Mapping[str, str]) -> Mapping[str, str]:
    """Path in the bundle and text of each file of the package.

    Args:
        name: The bundle's, which the package's module is called after.
        builds: Model, relative to the bundle -> the device profile that it was built for; a model that lies in a folder
            ships with all that is in that folder, and one for other devices than Apple's not at all.
    """
    found = dict(_files_below(files("edgekit_mlprogram").joinpath(FOLDER), f"{FOLDER}/"))
    apples = {model: int(match[1]) for model, profile in builds.items() if (match := _PROFILE.fullmatch(profile))}
    resources = [model.partition("/")[0] for model in apples]
    others = [model.partition("/")[0] for model in builds if model not in apples]
    description = found.pop(f"{FOLDER}/{DESCRIPTION}")
    for placeholder, text in (
        (_RESOURCE, ", ".join(map(_resource, resources))),
        (_EXCLUDED, ", ".join(f'"{place}"' for place in ("manifest.json", *resources))),
        (_REPORT, ", ".join(f'"{place}"' for place in ("report.md", *others))),
        (_PLATFORMS, _platforms(min(apples.values()))),
    ):
        description = description.replace(placeholder, text)
    module = module_name(name)
    return {path: text.replace(_MODULE, module) for path, text in {DESCRIPTION: description, **found}.items()}


def module_name(name: str) -> str:
    """The name of a Swift module for a bundle of this name: ``digits-ios18`` becomes ``DigitsIos18Model``.

    Modules of one app need names of their own, and so do the packages that hold them.
    """
    words = re.findall(r"[A-Za-z0-9]+", name)
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    if len(words) != len(re.findall(r"\w+", name.replace("_", " "))) or not joined:  # some letters are none of ASCII's
        joined += hashlib.sha256(name.encode()).hexdigest()[:8].upper()
    named = joined if joined[0].isalpha() else f"Bundle{joined}"
    return f"{named.removesuffix('Model')}Model"


def _resource(place: str) -> str:
    """How the description declares a model: Xcode compiles an ``.mlpackage`` that is processed; others are copied."""
    rule = "process" if place.endswith(".mlpackage") else "copy"
    return f'.{rule}("{place}")'


def _platforms(version: int) -> str:
    """The systems of one generation, by the version of iOS."""
    return f'.iOS("{version}.0"), .macOS("{version if version >= _SAME_NUMBERS else version - 3}.0")'


def _files_below(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files_below(entry, f"{path}{entry.name}/")
        else:
            yield f"{path}{entry.name}", entry.read_text(encoding="utf-8")
