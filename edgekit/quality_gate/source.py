"""Whether a bundle was made from the files of a model that lie here: the ONNX file, and the files of its tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgekit.bundle import Bundle
from edgekit.errors import InputError
from edgekit.files import lfs
from edgekit.graph.reading.onnx_file import sha256


def source_files(bundle: Bundle, model: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The files of the model that the bundle's manifest records, each where it belongs, with its record.

    Args:
        bundle: The bundle.
        model: The ONNX file.
    """
    first, *others = bundle.manifest["source"]["files"]
    yield model, first
    for record in others:
        yield model.parent / record["path"], record


def require_same_source(bundle: Bundle, model: Path) -> None:
    """Checks that the bundle was made from the model's files; files that are missing are skipped.

    Args:
        bundle: The bundle.
        model: The ONNX file.

    Raises:
        InputError: A file is another one, or a Git LFS pointer.
    """
    for file, record in source_files(bundle, model):
        if not file.is_file():
            continue
        if lfs.is_pointer(file):
            what = "an ONNX model" if file == model else "the model's data file"
            raise InputError(
                f"is not {what} but a Git LFS pointer", subject=file, hint=f"fetch the file itself with {lfs.FETCHING}"
            )
        present = sha256(file)
        if present != record["sha256"]:
            raise InputError(
                "was made from another model",
                subject=bundle.path,
                expected=f"{file}, SHA-256 {present}",
                found=f"made from {record['path']}, SHA-256 {record['sha256']}",
                hint="build it again, or name its own model",
            )
