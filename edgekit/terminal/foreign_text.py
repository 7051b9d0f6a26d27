"""Text that comes from files: names of nodes, labels, paths. Nothing in it steers a terminal or a CI.

Standard output and standard error of the command line are :class:`SafeStream` objects. Where nobody looks at a
terminal, they escape every control character, and every line that GitHub Actions would take for a command. On a
terminal, EdgeKit's own colours have to pass, so what is foreign is escaped before it is coloured: :func:`escaped` for
lines of ours, :class:`~edgekit.terminal.escaping_console.EscapingConsole` for tables.
"""

from __future__ import annotations

import errno
import io
import os
import re
from contextlib import suppress
from typing import Any

from edgekit.errors import InputError

READER_GONE = 141
"""Exit code of a program whose reader has closed the pipe (``edgekit … | head``), as shells tell it: 128 + SIGPIPE."""

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters of ASCII and Latin-1 save tab and newline, line separators, what turns the direction of writing
around (Unicode's Bidi_Control), and halves of surrogate pairs."""
_COMMAND_OF_CI = re.compile(r"^(\s*)(?=::|##\[)", re.MULTILINE)
"""Where a line begins that GitHub Actions reads as a command; it passes over spaces before it."""


class ReaderGoneError(InputError):
    """Who reads the output has seen enough."""

    exit_code = READER_GONE


def escaped(text: str) -> str:
    r"""The text with every character that steers a terminal written as in a Python literal (``\x1b``)."""
    return _UNSAFE.sub(lambda match: _literal(match[0]), text)


def escaped_json(document: str) -> str:
    r"""A JSON document, in which such characters are written as JSON writes them (``\u009b``): it says the same."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def on_one_line(text: str) -> str:
    r"""The text escaped, and its line breaks too (``\n``)."""
    return escaped(text).replace("\n", "\\n")


def _literal(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class SafeStream(io.TextIOWrapper):
    """Standard output or standard error.

    Args:
        buffer: What it writes to.
        name: What errors call it.
        encoding: Of the text.
        raw: Whether control characters may pass, because everything foreign has been escaped already.
        line_buffering: Whether every line is written at once.
    """

    def __init__(self, buffer: Any, name: str, encoding: str, *, raw: bool, line_buffering: bool) -> None:
        # A terminal that lacks a character gets "?", not a crash.
        super().__init__(buffer, encoding=encoding, errors="replace", line_buffering=line_buffering)
        self._called = name
        self._raw = raw
        self._at_line_start = True
        self.origin: object = None
        """What must stay open as long as this does."""

    def write(self, text: str, /) -> int:
        """Writes the text, escaped where nobody has done that before.

        Raises:
            InputError: It cannot be written.
        """
        self._write(text if self._raw else self._safe(text))
        return len(text)

    def write_command(self, line: str) -> None:
        """Writes a line that a CI is meant to read as a command, control characters escaped."""
        self._write(escaped(line) + "\n")

    def flush(self) -> None:
        """Hands on what is still here.

        Raises:
            InputError: It cannot be written.
        """
        try:
            super().flush()
        except OSError as error:
            raise self._failure(error) from error

    def _safe(self, text: str) -> str:
        text = escaped(text)
        first, newline, rest = text.partition("\n")
        if self._at_line_start:
            first = _COMMAND_OF_CI.sub(r"\1\\", first)
        if text:
            self._at_line_start = text.endswith("\n")
        return first + newline + _COMMAND_OF_CI.sub(r"\1\\", rest)

    def _write(self, text: str) -> None:
        try:
            super().write(text)
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> InputError:
        # What is left in the buffer must not fail again at exit.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
        if error.errno == errno.EPIPE:
            return ReaderGoneError("who reads it has closed it", subject=self._called)
        return InputError(f"cannot be written: {(error.strerror or str(error)).lower()}", subject=self._called)


class _Closed(io.RawIOBase):
    """Standard output of a process that was started without one; it says so once."""

    _told = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        if not self._told:
            self._told = True
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return len(data)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def safe_stream(stream: Any, name: str) -> SafeStream:
    """A safe stream to where a stream writes, by its descriptor; ``stream`` is None where that was closed."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return SafeStream(io.BufferedWriter(_Closed()), name, "utf-8", raw=False, line_buffering=False)
    terminal = os.isatty(descriptor)
    raw = terminal or bool(os.environ.get("FORCE_COLOR"))
    is_error = name == "standard error"
    file = os.fdopen(descriptor, "wb", closefd=False)
    safe = SafeStream(file, name, stream.encoding, raw=raw, line_buffering=terminal or is_error)
    safe.origin = stream
    return safe
