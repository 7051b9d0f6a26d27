"""Escapes text that comes from files (names of nodes, labels, paths), so that it cannot control a terminal or a CI.

Standard output and standard error of the command line are :class:`SafeStream` objects. If they are not a terminal, they
escape every control character, and every line that GitHub Actions would read as a command. On a terminal, EdgeKit's own
colors have to pass, so text from files is escaped before it is colored: by :func:`escaped` in EdgeKit's own lines, by
:class:`~edgekit.terminal.escaping_console.EscapingConsole` in tables.
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
"""Exit code of a program whose reader has closed the pipe (``edgekit … | head``), as in shells: 128 + SIGPIPE."""

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters of ASCII and Latin-1 except tab and newline, line separators, characters that change the direction
of writing (Unicode's Bidi_Control), and halves of surrogate pairs."""
_COMMAND_OF_CI = re.compile(r"^(\s*)(?=::|##\[)", re.MULTILINE)
"""The beginning of a line that GitHub Actions reads as a command; GitHub ignores spaces before the command."""


class ReaderGoneError(InputError):
    """The reader of the output has closed the pipe."""

    exit_code = READER_GONE


def escaped(text: str) -> str:
    r"""The text with every unsafe character, such as a control character, written as in a Python literal (``\x1b``)."""
    return _UNSAFE.sub(lambda match: _literal(match[0]), text)


def escaped_json(document: str) -> str:
    r"""A JSON document with unsafe characters as JSON escapes (``\u009b``), which leaves its content unchanged."""
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
        buffer: The binary stream that is written to.
        name: How errors name the stream.
        encoding: The encoding of the text.
        raw: Whether control characters may pass, because text from files has been escaped already.
        line_buffering: Whether every line is written at once.
    """

    def __init__(self, buffer: Any, name: str, encoding: str, *, raw: bool, line_buffering: bool) -> None:
        # A terminal that lacks a character gets "?", not a crash.
        super().__init__(buffer, encoding=encoding, errors="replace", line_buffering=line_buffering)
        self._called = name
        self._raw = raw
        self._at_line_start = True
        self.origin: object = None
        """The original stream, which must stay open as long as this one."""

    def write(self, text: str, /) -> int:
        """Writes the text, escaped unless the stream is raw.

        Raises:
            InputError: The text cannot be written.
        """
        self._write(text if self._raw else self._safe(text))
        return len(text)

    def write_command(self, line: str) -> None:
        """Writes a line that a CI is meant to read as a command, control characters escaped."""
        self._write(escaped(line) + "\n")

    def flush(self) -> None:
        """Writes what is still in the buffer.

        Raises:
            InputError: The buffer cannot be written.
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
    """Replaces a standard stream of a process that was started without it; only the first write raises an error."""

    _has_raised = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        if not self._has_raised:
            self._has_raised = True
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return len(data)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def safe_stream(stream: Any, name: str) -> SafeStream:
    """A safe stream with the descriptor of ``stream``, which is None if it was closed when the process started."""
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
