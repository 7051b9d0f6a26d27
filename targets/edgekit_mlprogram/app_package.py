"""The Swift package that is added to a bundle for Apple's systems, so that Xcode can use the bundle as a package."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable

FOLDER = "swift"
"""Folder of the Swift sources, in this Python package and in a bundle, where ``Package.swift`` lies beside it."""
DESCRIPTION = "Package.swift"
_MODULE = "PackagedModel"
"""Placeholder for the module's name in the sources."""
_RESOURCE, _EXCLUDED = '.process("model.mlpackage")', '"manifest.json", "model.mlpackage"'
"""Placeholders in the description: the models that are resources of one target, and what the other target excludes."""
_REPORT = '"report.md"'
"""Placeholder in the description for the files that are not part of the package."""
_PLATFORMS = '.iOS("16.0"), .macOS("13.0")'
_PROFILE = re.compile(r"(?:ios|macos)(\d+)")
"""Names of profiles whose models an app loads; a bundle may hold builds for other devices, too."""
_SAME_NUMBERS = 26
"""From version 26 on iOS and macOS have the same number; before, the number of macOS was lower by three."""


def app_package(name: str, builds: Mapping[str, str]) -> Mapping[str, str]:
    """Path in the bundle and text of each file of the package.

    Args:
        name: Name of the bundle, from which the name of the package's module is made.
        builds: Path of each model, relative to the bundle -> the device profile that it was built for. A model in a
            folder ships with all that is in the folder; a model for a device that is not Apple's is left out.
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

    The modules of one app need different names, and so do the packages that hold them.
    """
    words = re.findall(r"[A-Za-z0-9]+", name)
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    if len(words) != len(re.findall(r"\w+", name.replace("_", " "))) or not joined:  # some letters are not ASCII
        joined += hashlib.sha256(name.encode()).hexdigest()[:8].upper()
    named = joined if joined[0].isalpha() else f"Bundle{joined}"
    return f"{named.removesuffix('Model')}Model"


def _resource(place: str) -> str:
    """The description's entry for a model: Xcode compiles a "processed" ``.mlpackage``; other models are copied."""
    rule = "process" if place.endswith(".mlpackage") else "copy"
    return f'.{rule}("{place}")'


def _platforms(version: int) -> str:
    """Returns the least iOS and macOS versions of one generation, by the version of iOS."""
    return f'.iOS("{version}.0"), .macOS("{version if version >= _SAME_NUMBERS else version - 3}.0")'


def _files_below(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files_below(entry, f"{path}{entry.name}/")
        else:
            yield f"{path}{entry.name}", entry.read_text(encoding="utf-8")
