"""Writing an .mlpackage: the same program gives the same bytes, identifiers included."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

AUTHOR = "com.apple.CoreML"
SPECIFICATION = f"{AUTHOR}/model.mlmodel"
WEIGHTS = f"{AUTHOR}/weights"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "edgekit:mlpackage")
"""Namespace of the identifiers, which are name-based (RFC 9562, version 5) so that they do not differ between runs."""


def weights_folder(package: Path) -> Path:
    """Where the weight file goes; made here, since the exporter expects it."""
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
    (package / "Manifest.json").write_text(json.dumps(manifest, separators=(",", ":"), sort_keys=True))
