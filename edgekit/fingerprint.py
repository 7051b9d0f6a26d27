"""Computes one hash over everything that a bundle depends on, which tells whether the bundle is up to date."""

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
    """The ONNX file, and the external files of its tensors.

    Raises:
        edgekit.errors.InputError: The file is missing, damaged, or not an ONNX model.
    """
    return [model, *external_files(read_proto(model), model)]


def data_files(folder: Path) -> dict[str, Path]:
    """Every file of a data folder by its relative path, in the order of the paths; a path may contain the label.

    If the data are a single file, such as a table, this file by its name.
    """
    if folder.is_file():
        return {folder.name: folder}
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def fingerprint(files: Mapping[str, Path], options: Mapping[str, Any]) -> str:
    """The SHA-256, in hexadecimal, of the files' names and contents, the options and the versions of the packages.

    Args:
        files: The files of the model and of the data, by the names that are hashed.
        options: The options of the bundle, as plain data.
    """
    hashes = {name: sha256(path) for name, path in files.items()}
    parts = {"files": hashes, "options": options, "versions": _versions()}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _versions() -> dict[str, str]:
    """Versions of EdgeKit, of the packages that bring plugins, and of the packages that these require."""
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
