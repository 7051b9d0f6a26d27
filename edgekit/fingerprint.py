"""Tells whether a bundle is up to date: one hash over all that it depends on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points, version
from pathlib import Path
from typing import Any

from edgekit.graph.reading.onnx_file import external_files, read_proto, sha256
from edgekit.registry import KINDS

_REQUIREMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def model_files(model: Path) -> list[Path]:
    """The ONNX file, and the files that it keeps its tensors in.

    Raises:
        edgekit.errors.InputError: The file is missing, is no ONNX model, or is damaged.
    """
    return [model, *external_files(read_proto(model), model)]


def data_files(folder: Path) -> dict[str, Path]:
    """Every file of a data folder by its path inside, which may hold the label, in the order of the paths.

    A table is a single file.
    """
    if folder.is_file():
        return {folder.name: folder}
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def fingerprint(files: Mapping[str, Path], options: Mapping[str, Any]) -> str:
    """The SHA-256, in hexadecimal, of the files' names and contents, of the options and of all versions that count.

    Args:
        files: The model's and the data's, by the names that count.
        options: Plain data.
    """
    hashes = {name: sha256(path) for name, path in files.items()}
    parts = {"files": hashes, "options": options, "versions": _versions()}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _versions() -> dict[str, str]:
    """Versions of EdgeKit, of what it requires, and of the packages that bring plugins."""
    installed = entry_points()  # each call reads the files of every package
    plugins = [entry_point for kind in KINDS for entry_point in installed.select(group=kind.group)]
    packages: dict[str, Distribution] = {"edgekit": distribution("edgekit")}
    packages |= {plugin.dist.name: plugin.dist for plugin in plugins if plugin.dist is not None}
    required = {
        match[0]
        for package in packages.values()
        for requirement in package.requires or ()
        if "extra ==" not in requirement and (match := _REQUIREMENT_NAME.match(requirement))
    }
    return {name: _version(name) for name in {*packages, *required}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # required on other platforms only
        return "none"
