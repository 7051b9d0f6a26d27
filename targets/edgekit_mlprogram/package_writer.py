"""Writing an .mlpackage: the same program gives the same bytes, identifiers included."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

AUTHOR = "com.apple.CoreML"
SPECIFICATION = f"{AUTHOR}/model.mlmodel"
MANIFEST = "Manifest.json"
WEIGHTS = f"{AUTHOR}/weights"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "edgekit:mlpackage")
"""Namespace of the identifiers, which are name-based (RFC 9562, version 5) so that they do not differ between runs."""


def weights_folder(package: Path) -> Path:
    """Creates and returns the folder of the weight file, which has to exist before the exporter writes the file."""
    folder = package / "Data" / WEIGHTS
    folder.mkdir(parents=True)
    return folder


def write(package: Path, specification: Any) -> None:
    """Write the specification and the manifest beside the weights that are there already.

    Args:
        package: The package's folder.
        specification: The model's protobuf message.
    """
    data = specification.SerializeToString(deterministic=True)
    (package / "Data" / SPECIFICATION).write_bytes(data)
    items = {
        SPECIFICATION: {"name": "model.mlmodel", "description": "CoreML Model Specification"},
        WEIGHTS: {"name": "weights", "description": "CoreML Model Weights"},
    }
    entries = {
        str(uuid.uuid5(NAMESPACE, path)).upper(): {"author": AUTHOR, "path": path, **item}
        for path, item in items.items()
    }
    manifest = {
        "fileFormatVersion": "1.0.0",
        "itemInfoEntries": entries,
        "rootModelIdentifier": str(uuid.uuid5(NAMESPACE, SPECIFICATION)).upper(),
    }
    (package / MANIFEST).write_bytes(_laid_out(manifest))


def _laid_out(manifest: Any) -> bytes:
    """Returns the manifest in the form in which coremltools rewrites it whenever it opens a package."""
    return (json.dumps(manifest, indent=4, sort_keys=True) + "\n").encode()


def canonical(file: Path) -> bytes | None:
    """A package file's content in the bytes that :func:`write` writes; None for damaged files and other files."""
    try:
        if file.name == MANIFEST:
            return _laid_out(json.loads(file.read_bytes()))
        if file.suffix == ".mlmodel":
            data: bytes = _parsed(file.read_bytes()).SerializeToString(deterministic=True)
            return data
    except (ValueError, RecursionError):
        return None
    return None


def _parsed(data: bytes) -> Any:
    """The model's protobuf message.

    Raises:
        ValueError: The data is not a model's message.
    """
    from coremltools.proto import Model_pb2
    from google.protobuf.message import DecodeError

    try:
        return Model_pb2.Model.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from error
