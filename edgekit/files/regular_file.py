"""Reads untrusted files: regular files only, and only up to a limit of bytes.

A FIFO would wait for ever, ``/dev/zero`` never ends, and a few bytes may claim to hold terabytes.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from edgekit.errors import InputError
from edgekit.files import lfs
from edgekit.files.missing import hint_for_missing

TEXT_BYTES = 64 << 20
"""Most bytes of a text: labels, a project file."""
DOCUMENT_BYTES = 256 << 20
"""Most bytes of a JSON document."""
SAMPLE_BYTES = 1 << 30
"""Most bytes of a sample, packed or not."""


def open_regular(path: Path, most: int) -> BinaryIO:
    """Opens a file for reading after checking what it is.

    Args:
        path: The file; links are followed.
        most: Most bytes that the file may hold.

    Raises:
        InputError: The file is no regular file, too large, a Git LFS pointer, or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        hint = hint_for_missing(path) if isinstance(error, FileNotFoundError) else None
        raise InputError(f"cannot be read: {_reason(error)}", subject=_short(path), hint=hint) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InputError("is not a regular file", subject=path, found=_kind(status.st_mode))
        if status.st_size > most:
            raise InputError("is too large", subject=path, expected=f"{most} bytes at most", found=status.st_size)
        file = os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
    try:
        if lfs.begins_as_pointer(file.peek(len(lfs.MAGIC))):
            raise InputError(
                "is a Git LFS pointer, not the file itself",
                subject=path,
                hint=f"fetch the file itself with {lfs.FETCHING}",
            )
    except OSError as error:
        file.close()
        raise InputError(f"cannot be read: {_reason(error)}", subject=_short(path)) from error
    except BaseException:
        file.close()
        raise
    return file


def read_regular(path: Path, most: int) -> bytes:
    """All bytes that the file holds when it is opened; see :func:`open_regular`."""
    with open_regular(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)  # read() allocates as many bytes as it is asked for


def read_text(path: Path, encoding: str = "utf-8-sig", most: int = TEXT_BYTES) -> str:
    """The file's text, without the byte order mark that Windows editors put first; see :func:`open_regular`.

    Raises:
        InputError: The file cannot be read, or is in another encoding.
    """
    try:
        data = read_regular(path, most)
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            "cannot be read: it is not in UTF-8",
            subject=path,
            expected="a text file in UTF-8",
            found="UTF-16" if is_utf16 else f"byte 0x{data[error.start]:02x} in line {line}",
            hint="save it as UTF-8: PowerShell's > writes UTF-16, and `Out-File -Encoding utf8` does not"
            if is_utf16
            else "save it as UTF-8; many editors call that an encoding",
        ) from error


def read_json(path: Path) -> Any:
    """The file's JSON document, by the standard: without NaN and infinities, and no name twice in an object.

    If a name occurs twice, some readers take the first value and others the last.

    Raises:
        InputError: The file cannot be read, or is no JSON document.
    """
    text = read_text(path, most=DOCUMENT_BYTES)
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InputError(f"cannot be read: {_reason(error)}", subject=path, expected="a JSON document") from error


def real_path(path: Path) -> Path:
    """The absolute path with links resolved; a link to itself stays unresolved."""
    return Path(os.path.realpath(path))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's names and values as a dict; a name that occurs twice raises a ValueError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"an object has the name {_short(twice)!r} twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, OSError) and error.errno == errno.ENXIO:
        return "it is not a regular file"
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


def _short(path: Path | str) -> str:
    text = str(path)
    return text if len(text) <= 300 else f"{text[:300]}…"


def _kind(mode: int) -> str:
    kinds = {
        "a folder": stat.S_ISDIR,
        "a FIFO": stat.S_ISFIFO,
        "a device": stat.S_ISCHR,
        "a disk": stat.S_ISBLK,
        "a socket": stat.S_ISSOCK,
    }
    return next((name for name, holds in kinds.items() if holds(mode)), "something else")
