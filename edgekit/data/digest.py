"""One hash over samples and their labels, which tells later whether they are still the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from edgekit.data.labels import LABEL_FILES
from edgekit.data.samples import sample_files
from edgekit.files.lfs import is_pointer
from edgekit.graph.reading.onnx_file import sha256


def samples_digest(data: Path) -> str | None:
    """The SHA-256, in hexadecimal, of the names and the contents of samples and of lists of labels.

    None if the samples are not on this machine: the path does not exist, or Git LFS left pointers.

    Args:
        data: A folder of samples, or a table.

    Raises:
        InputError: The folder holds no samples.
    """
    if not data.exists():
        return None
    files = {data.name: data} if data.is_file() else _files_in(data)
    if any(is_pointer(file) for file in files.values()):
        return None
    hashes = {name: sha256(file) for name, file in files.items()}
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def _files_in(folder: Path) -> dict[str, Path]:
    lists = [folder / name for name in LABEL_FILES if (folder / name).is_file()]
    return {file.relative_to(folder).as_posix(): file for file in [*lists, *sample_files(folder)]}
