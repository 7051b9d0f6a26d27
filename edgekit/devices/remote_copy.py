"""Receives a bundle's files on a device, runs a program of them, and removes them when it ends or the host is gone.

EdgeKit sends this file's text to the Python on the device; the file uses nothing but the standard library. The host
writes to standard input and reads from standard output; each message is a line of JSON:

1.  The host names the folder and the files, with their sizes and SHA-256 sums.
2.  The answer says how many bytes of each file have arrived: 0, or more if an earlier connection broke off.
3.  The rest of the files follows, one after the other; the answer says that all have arrived as they were sent.
4.  The host sends the program's arguments. From then on the program alone uses standard input and output.

If the connection breaks off while files arrive, the folder is kept for some seconds for the next connection.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LEAST_PYTHON = (3, 10)
_CHUNK = 1 << 16
_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_TO_END = 5.0
"""Time that the program has to end by itself once the host is gone."""
_HUNG_UP = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
_OWNER = ".owner"
"""The file with the id of the process that the folder belongs to."""


class _BrokenOffError(Exception):
    """The host's side was closed in the middle of something."""


def main() -> int:
    """Returns the exit code of the program, or 1 if it was not started."""
    if sys.version_info < LEAST_PYTHON:
        needed, found = (".".join(map(str, version[:2])) for version in (LEAST_PYTHON, sys.version_info))
        _answer({"error": f"Python {needed} or later is needed, {sys.executable} is Python {found}"})
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        request = json.loads(_read_line())
        folder = Path(request["parent"] or tempfile.gettempdir(), request["folder"])
        folder.mkdir(mode=0o700, exist_ok=True)
        with _removed_at_the_end(folder):
            try:
                _take_files(folder, request["files"])
                arguments = json.loads(_read_line())["arguments"]
            except _BrokenOffError:
                _wait_for_successor(folder, request["patience"])
                return 1
            return _run(arguments, folder)
    except OSError as error:
        _answer({"error": str(error)})
        return 1
    except _BrokenOffError:
        return 1


@contextmanager
def _removed_at_the_end(folder: Path) -> Iterator[None]:
    try:
        (folder / _OWNER).write_text(str(os.getpid()))
        yield
    finally:
        if _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _take_files(folder: Path, files: list[dict[str, Any]]) -> None:
    targets = [folder / file["path"] for file in files]
    arrived = [target.stat().st_size if target.is_file() else 0 for target in targets]
    _answer({"folder": str(folder), "arrived": arrived})
    for file, target, offset in zip(files, targets, arrived, strict=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        rest = file["bytes"] - offset
        with target.open("ab") as stream:
            while rest:
                data = _read(min(_CHUNK, rest))
                stream.write(data)
                rest -= len(data)
    changed = [file["path"] for file, target in zip(files, targets, strict=True) if _sha256(target) != file["sha256"]]
    if changed:
        raise OSError(f"arrived changed: {', '.join(changed)}")
    _answer({"complete": True})


def _run(arguments: list[str], folder: Path) -> int:
    program = subprocess.Popen([sys.executable, *arguments], cwd=folder)
    connection = select.poll()
    connection.register(0, _HUNG_UP)
    connection.register(1, _HUNG_UP)
    try:
        while program.poll() is None:
            if connection.poll(_SECONDS_BETWEEN_LOOKS * 1e3):
                program.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        return 1
    finally:
        program.kill()
        program.wait()
    return program.returncode if program.returncode >= 0 else 128 - program.returncode


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _end(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def _wait_for_successor(folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and _is_ours(folder):
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _is_ours(folder: Path) -> bool:
    owner = folder / _OWNER
    return owner.is_file() and owner.read_text() == str(os.getpid())


def _read_line() -> bytes:
    """Reads one line of standard input and no further byte: the rest is read elsewhere."""
    line = b""
    while not line.endswith(b"\n"):
        line += _read(1)
    return line


def _read(most: int) -> bytes:
    try:
        data = os.read(0, most)
    except ConnectionError:  # a connection may end in this way, too
        data = b""
    if not data:
        raise _BrokenOffError
    return data


def _answer(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
