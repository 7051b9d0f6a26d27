"""Refuses names of files in bytes that are not UTF-8, as archives of other systems and other locales make them.

Python replaces bytes that it cannot decode by surrogates (PEP 383), or decodes them by the locale's encoding. Documents
in UTF-8 cannot hold surrogates; with a name in another encoding, libraries in C++ open another file.
"""

from __future__ import annotations

import os
from pathlib import Path

from edgekit.errors import InputError


def require_utf8_name(path: Path, *, inside: Path | None = None) -> None:
    """Checks that a document in UTF-8 can hold the name.

    Args:
        path: The file.
        inside: The part of the path that a document is to hold; by default all of it.

    Raises:
        InputError: The name is not valid in UTF-8.
    """
    if not _is_text(path if inside is None else inside):
        raise InputError(
            "its name, or that of a folder above it, is not text in UTF-8",
            subject=path,
            hint="rename it, or set PYTHONUTF8=1 where the system's locale is another",
        )


def require_name_for_libraries(path: Path) -> None:
    """Checks that libraries in C++, which take names as UTF-8 whatever the system's locale is, open the same file.

    Raises:
        InputError: The libraries would open another file, or none.
    """
    if not _is_text(path) or os.fsencode(path) != str(path).encode():
        raise InputError(
            "its name, or that of a folder above it, is not text in UTF-8, which onnx and the runtimes need",
            subject=path,
            hint="rename it, or set PYTHONUTF8=1 where the system's locale is another",
        )


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
