"""Writes outputs completely or not at all: under a temporary name, renamed into place, removed on any failure."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgekit.errors import EdgeKitError, InputError
from edgekit.files.bundle_folder import require_outside_bundles
from edgekit.files.disk_space import is_shortage, no_room, shortage
from edgekit.files.utf8_names import require_name_for_libraries

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_PREFIX = ".edgekit-"
_TEMPORARY_PREFIX = ".edgekit-tmp-"
_OLD = "old"
_HERE, _EXCHANGE = -100, 2
"""``AT_FDCWD`` and ``RENAME_EXCHANGE`` of Linux's ``renameat2``."""
_CHOSEN_WITH = "-o"
"""The option that chooses the place of most outputs."""
_placed: dict[Path, None] = {}
"""The outputs that this process has put into place, by the paths that the user gave."""


def placed() -> list[Path]:
    """The outputs put into place since :func:`forget_placed` that still exist, by the paths that the user gave."""
    return [path for path in _placed if path.exists()]


def forget_placed() -> None:
    """Empties the list of outputs, before another command in the same process."""
    _placed.clear()


@contextmanager
def atomic_file(path: Path, *, chosen_with: str | None = _CHOSEN_WITH, part_of_bundle: bool = False) -> Iterator[Path]:
    """Where to write the file that becomes ``path``: a file of the same name in a temporary folder.

    Files that the body writes next to it (a model's external data) are moved as well. An existing file is replaced.

    Args:
        path: The name that the file gets in the end.
        chosen_with: The option that chooses the place, for hints; None if there is none.
        part_of_bundle: Whether the file belongs into a finished bundle.

    Raises:
        InputError: The output cannot be written, the disk is full, or it lies in a bundle.
    """
    if not part_of_bundle:
        require_outside_bundles(path)
    named, path = path, _file_place(path)
    with _folder_beside(path, chosen_with) as folder:
        yield folder / path.name
        with _uninterrupted():
            companions = [written for written in sorted(folder.iterdir()) if written.name != path.name]
            for written in [*companions, folder / path.name]:
                written.replace(path.with_name(written.name))
            _placed[named] = None


def require_writable(path: Path, *, chosen_with: str | None = _CHOSEN_WITH) -> None:
    """Checks before long work that a file can be written when it is done. Nothing is left behind.

    Args:
        path: The file's name.
        chosen_with: The option that chooses the place, for hints; None if there is none.

    Raises:
        InputError: The file cannot be written.
    """
    with _folder_beside(_file_place(path), chosen_with):
        pass


def require_another_file(output: Path, given: Path, *, what: str = "the model") -> None:
    """Checks that a command does not write over the file that it reads.

    Args:
        output: The file to write.
        given: The file that is read.
        what: How errors name the file that is read.

    Raises:
        InputError: Both are the same file, by whatever name.
    """
    if output.exists() and output.samefile(given):
        raise InputError(
            f"is {what} itself, which would be lost", subject=f"{_CHOSEN_WITH} {output}", hint="name another file"
        )


def _file_place(path: Path) -> Path:
    """The path of an output file, with links resolved.

    Raises:
        InputError: Something other than a regular file is there.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise InputError("is not a regular file", subject=path, hint="name a file to write")
    return path


@contextmanager
def atomic_directory(
    path: Path,
    *,
    what: str = "folder",
    may_replace: Callable[[Path], bool] = lambda _: False,
    chosen_with: str | None = _CHOSEN_WITH,
) -> Iterator[Path]:
    """Where to write the folder that becomes ``path``: an empty folder beside it.

    Args:
        path: The name that the folder gets in the end. An empty folder of that name is replaced.
        what: What the folder is, for the error's text (``bundle``).
        may_replace: Whether an existing folder of that name is an older output, which may go.
        chosen_with: The option that chooses the place, for hints; None if there is none.

    Raises:
        InputError: ``path`` is something that must not be replaced, or lies in a bundle; the output cannot be written;
            the disk is full; or libraries in C++ could not open files of this path.
    """
    require_outside_bundles(path)
    named, path = path, Path(os.path.realpath(path))
    require_name_for_libraries(path)
    if path.exists() and not (path.is_dir() and (not any(path.iterdir()) or may_replace(path))):
        name = "" if chosen_with is None else f"choose another name with {chosen_with}, or "
        raise InputError(f"exists and is not a {what}", subject=path, hint=f"{name}remove it first")
    with _folder_beside(path, chosen_with) as folder:
        result, older = folder / "new", folder / _OLD / path.name
        result.mkdir()
        yield result
        working_there = _is_working_directory(path)
        with _uninterrupted():
            if path.exists() and not _exchanged(result, path):
                older.parent.mkdir()
                path.rename(older)
                try:
                    result.rename(path)
                except OSError:
                    older.rename(path)
                    raise
            elif not path.exists():
                result.rename(path)
            _placed[named] = None
            if working_there:
                os.chdir(path)


def _is_working_directory(path: Path) -> bool:
    """Whether a path is this process's working directory."""
    return path.exists() and path.samefile(os.curdir)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchanges two paths atomically, so that both exist at every moment; returns False if the system cannot."""
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # a C library without it
        return False
    return bool(rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for temporary files, removed afterwards; also removes such folders of processes that were killed.

    Those are removed before and after: a process that was killed just now may hold its folder's lock a moment longer.

    Raises:
        OSError: There is no place to write to.
    """
    parent = Path(tempfile.gettempdir()).absolute()
    remove_abandoned(parent, _TEMPORARY_PREFIX)
    folder = parent / f"{_TEMPORARY_PREFIX}{secrets.token_hex(6)}"
    with made_and_locked(folder):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):
                remove_abandoned(parent, _TEMPORARY_PREFIX)


@contextmanager
def _folder_beside(path: Path, chosen_with: str | None) -> Iterator[Path]:
    """A temporary folder beside ``path``; makes the parents of ``path``, and removes them if nothing is written."""
    folder = path.with_name(f"{_PREFIX}{secrets.token_hex(6)}")
    new_parents = [parent for parent in path.parents if not parent.exists()]
    try:
        remove_abandoned(path.parent)
        with made_and_locked(folder):
            yield folder
    except OSError as error:
        failure = _explanation(error, path, folder, chosen_with)
        if failure is None:
            raise
        raise failure from error
    except EdgeKitError:
        raise
    except Exception as error:
        # Native libraries report a full disk in their own words, or not at all, so a test file is written.
        number = shortage(folder) if folder.is_dir() else None
        if number is not None:
            raise no_room(path, number, _elsewhere(chosen_with)) from error
        raise
    finally:
        with _uninterrupted():
            shutil.rmtree(folder, ignore_errors=True)
            if not path.exists():
                _remove_empty(new_parents)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Excludes other processes that lock the same path, so that a file is read, changed and written in one step.

    The nearest existing folder above is locked, so that no lock file is left behind. The lock of a process that is
    killed is released.
    """
    descriptor = _lock(next(parent for parent in path.absolute().parents if parent.is_dir()), wait=True)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def remove_abandoned(folder: Path, prefix: str = _PREFIX) -> None:
    """Removes unfinished outputs of killed processes from a folder; outputs that are still being written stay.

    A process that writes holds a lock, which the system releases when the process ends, however it ends.

    Args:
        folder: The folder to clean up.
        prefix: The prefix of the names of unfinished outputs.
    """
    for unfinished in folder.glob(f"{prefix}*"):
        descriptor = None if unfinished.is_symlink() else _lock(unfinished, wait=False)
        if descriptor is not None:
            try:
                if _is_at(descriptor, unfinished):  # if not, it was removed, and its owner has made it again
                    _put_back(unfinished / _OLD, folder)
                    shutil.rmtree(unfinished, ignore_errors=True)
            finally:
                os.close(descriptor)


def _put_back(kept: Path, folder: Path) -> None:
    """Restores the older outputs that a killed process was about to replace."""
    for older in kept.iterdir() if kept.is_dir() else ():
        if not os.path.lexists(folder / older.name):
            older.rename(folder / older.name)


@contextmanager
def made_and_locked(folder: Path) -> Iterator[None]:
    """Makes the folder and holds its lock, so that no other process removes it as abandoned."""
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = _lock(folder, wait=True)
        is_ours = folder.is_dir() if descriptor is None else _is_at(descriptor, folder)
        if is_ours:
            break
        if descriptor is not None:
            os.close(descriptor)
        # another process removed it as abandoned before it was locked
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """A descriptor that holds the folder's lock; None if another process holds it, or if it cannot be locked."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_at(descriptor: int, folder: Path) -> bool:
    """Whether the descriptor is that of the folder that the path names now."""
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except FileNotFoundError:
        return False


def _explanation(error: OSError, path: Path, folder: Path, chosen_with: str | None) -> InputError | None:
    """The error for the person who chose the output's place; None if the failure has nothing to do with the output."""
    elsewhere = _elsewhere(chosen_with)
    touched = [Path(name) for name in (error.filename, error.filename2) if isinstance(name, str)]
    ours = any(path == name or folder == name or folder in name.parents or name in path.parents for name in touched)
    if error.errno is not None and is_shortage(error.errno):
        temporary = Path(tempfile.gettempdir()).absolute()
        if _lies_in_temporary(touched[-1] if touched and not ours else None, temporary, folder):
            return no_room(temporary, error.errno, "set TMPDIR to a folder on another disk")
        return no_room(path, error.errno, elsewhere)
    if not ours:
        return None
    writable = "make its folder writable"
    return InputError(
        f"cannot be written: {(error.strerror or str(error)).lower()}",
        subject=path,
        hint=writable if elsewhere is None else f"{elsewhere}, or {writable}",
    )


def _lies_in_temporary(touched: Path | None, temporary: Path, folder: Path) -> bool:
    """Whether the folder for temporary files is the one without room: errors of writes do not name a file.

    Args:
        touched: The file that the error names, if it does not belong to the output; else None.
        temporary: The folder for temporary files.
        folder: The folder that the output is written to, with what was written so far.
    """
    if touched is not None:
        return temporary in touched.absolute().parents
    apart = folder.is_dir() and folder.stat().st_dev != temporary.stat().st_dev
    return apart and shortage(folder) is None


def _elsewhere(chosen_with: str | None) -> str | None:
    """The hint how to put an output in another place; None if there is no way."""
    return None if chosen_with is None else f"choose another place with {chosen_with}"


def _remove_empty(folders: list[Path]) -> None:
    """Removes the folders in the given order, innermost first, up to the first one that is not empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return  # another process has put something there


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignores Ctrl-C and other ending signals meanwhile: a clean-up that is interrupted would leave files behind."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
