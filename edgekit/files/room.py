"""Tells whether a disk takes what is written: native libraries tell of a full one in their own words, or not at all."""

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
"""What the system says where there is no room, by its numbers."""
_FREEING = {errno.EFBIG: "allow larger files"}
_PROBE_BYTES = 1 << 16


class NoRoomError(InputError):
    """What is written does not fit: no other form of a model would."""


def is_shortage(number: int | None) -> bool:
    """Whether the number of an ``OSError`` says that there is no room."""
    return number in _REASONS


def is_for_want_of_room(error: BaseException) -> bool:
    """Whether an error says that there is no room: it tells nothing of a model, whatever was done with one."""
    return isinstance(error, NoRoomError) or (isinstance(error, OSError) and is_shortage(error.errno))


def shortage(folder: Path) -> int | None:
    """The number of the ``OSError`` with which a folder takes no file; None where it takes one, or another failure."""
    probe = folder / f".probe-{secrets.token_hex(4)}"
    try:
        probe.write_bytes(bytes(_PROBE_BYTES))
    except OSError as error:
        return error.errno if is_shortage(error.errno) else None
    finally:
        probe.unlink(missing_ok=True)
    return None


def require_room(folder: Path, elsewhere: str) -> None:
    """Asks after a failure whether the disk is to blame for it.

    Args:
        folder: Where something was written.
        elsewhere: What puts it in another place, as a request: ``set TMPDIR to another folder``.

    Raises:
        NoRoomError: The folder takes no file any more.
    """
    number = shortage(folder) if folder.is_dir() else None
    if number is not None:
        raise no_room(folder, number, elsewhere)


def no_room(path: Path, number: int, elsewhere: str | None) -> NoRoomError:
    """The error for the person who chose a place.

    Args:
        path: What could not be written.
        number: That of the ``OSError``.
        elsewhere: What puts it in another place, as a request; None where nothing does.
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
