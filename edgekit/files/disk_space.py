"""Detects full disks: native libraries report them in their own words, or not at all."""

from __future__ import annotations

import errno
import secrets
import shutil
from pathlib import Path

from edgekit.errors import InputError

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file is larger than the file system or `ulimit -f` allows",
}
"""The reasons for a lack of room, by the system's error numbers."""
_FREEING = {errno.EFBIG: "allow larger files"}
_PROBE_BYTES = 1 << 16


class NoRoomError(InputError):
    """There is no room for what is written, and there would be none for another form of the model."""


def is_shortage(number: int | None) -> bool:
    """Whether an ``OSError`` with this number means that there is no room."""
    return number in _REASONS


def is_out_of_space(error: BaseException) -> bool:
    """Whether an error means that the disk is full, and so says nothing about a model."""
    return isinstance(error, NoRoomError) or (isinstance(error, OSError) and is_shortage(error.errno))


def shortage(folder: Path) -> int | None:
    """The error number if a folder has no room for a file; None if it has room, or writing fails for another reason."""
    probe = folder / f".probe-{secrets.token_hex(4)}"
    try:
        probe.write_bytes(bytes(_PROBE_BYTES))
    except OSError as error:
        return error.errno if is_shortage(error.errno) else None
    finally:
        probe.unlink(missing_ok=True)
    return None


def require_room(folder: Path, elsewhere: str) -> None:
    """Checks after a failure whether a full disk caused it.

    Args:
        folder: The folder that was written to.
        elsewhere: How to write to another place, as a request: ``set TMPDIR to another folder``.

    Raises:
        NoRoomError: There is no room in the folder.
    """
    number = shortage(folder) if folder.is_dir() else None
    if number is not None:
        raise no_room(folder, number, elsewhere)


def no_room(path: Path, number: int, elsewhere: str | None) -> NoRoomError:
    """The error for the person who chose the place of an output.

    Args:
        path: What could not be written.
        number: The number of the ``OSError``.
        elsewhere: How to write to another place, as a request; None if there is no way.
    """
    freeing = _FREEING.get(number, "free some space")
    return NoRoomError(
        f"cannot be written: {_REASONS[number]}",
        subject=path,
        found=f"{shutil.disk_usage(_existing(path)).free} bytes free" if number == errno.ENOSPC else None,
        hint=freeing if elsewhere is None else f"{freeing}, or {elsewhere}",
    )


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())
