"""How a command that fails ends: one clear text on stderr, a record on stdout for ``--json``, and an exit code."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from shlex import quote
from typing import Any, TextIO

import typer

from edgekit.errors import EdgeKitError, InputError
from edgekit.processes.interruption import InterruptionError
from edgekit.terminal.foreign_text import ReaderGoneError, escaped

TRACEBACK_VARIABLE = "EDGEKIT_TRACEBACK"
"""Environment variable that asks for the Python traceback of an error."""


_PROGRAM = "edgekit"
_UNREADABLE = re.compile(r"[Pp]ath '(.+)' is not readable")
"""What Typer says of a file or folder that the user may not read."""


class InterruptedByUserError(InterruptionError):
    """Somebody pressed Ctrl-C, or asked the process to end.

    Args:
        message: What ended the process: a text of :func:`edgekit.processes.interruption.interruption_text`.
        hint: What to do about it.
        done: What the command had found before, as plain data, which ``--json`` prints together with the error.
    """

    def __init__(self, message: str, *, hint: str, done: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.done = dict(done or {})


def hint_of_interruption() -> str:
    """The hint that says what an interrupted command left: nothing, or the outputs that it had already written."""
    from edgekit.files.atomic import placed

    written = placed()
    if not written:
        return "nothing was left behind"
    return f"{', '.join(map(str, written))} had been written, and {'is' if len(written) == 1 else 'are'} whole"


def report(failure: Exception, *, as_json: bool, command: str = _PROGRAM) -> int:
    """Prints the failure, and returns its exit code.

    Args:
        failure: What the command ended with.
        as_json: Whether to print a record, too.
        command: The command, for a hint where the failure does not know it.
    """
    error = as_edgekit_error(failure, command)
    if isinstance(error, ReaderGoneError):
        return error.exit_code
    if os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0"):
        traceback.print_exception(failure, file=sys.stderr)
    with suppress(InputError, OSError):  # standard error is closed
        _print_coloured(escaped(f"error: {error}"), sys.stderr)
    if as_json:
        done = error.done if isinstance(error, InterruptedByUserError) else {}
        record = json.dumps({**done, "error": {"exit_code": error.exit_code, **error.as_record()}}, indent=2)
        with suppress(InputError, OSError):
            sys.stdout.write(record + "\n")
            sys.stdout.flush()
    return error.exit_code


def as_edgekit_error(failure: Exception, command: str = _PROGRAM) -> EdgeKitError:
    """The failure as an error with an exit code: wrong usage, a bad input, or a fault of EdgeKit or of a plugin."""
    if isinstance(failure, EdgeKitError):
        return failure
    if isinstance(failure, typer.TyperException):
        return _usage_error(failure, command)
    from edgekit import faults  # it looks for installed plugins

    return faults.as_edgekit_error(failure)


def _usage_error(failure: typer.TyperException, command: str) -> InputError:
    parameter, cause = getattr(failure, "param", None), failure.__cause__
    problems: Any = getattr(cause, "errors", None)  # of pydantic, with which Typer reads numbers
    if parameter is not None and problems is not None and getattr(parameter, "opts", None):
        return InputError(
            "cannot be used",
            subject=parameter.opts[0],
            expected=_number_text(parameter),
            found=str(problems()[0]["input"]),
        )
    message = " ".join(failure.format_message().split()).removesuffix(".")
    if (unreadable := _UNREADABLE.search(message)) is not None:
        return InputError(
            "cannot be read: permission denied",
            subject=unreadable[1],
            hint=f"make it readable: chmod u+rX {quote(unreadable[1])}",
        )
    context = getattr(failure, "ctx", None)
    command = context.command_path if context is not None else command
    return InputError(message[:1].lower() + message[1:], hint=f"`{command} --help` shows the usage")


def _number_text(parameter: Any) -> str:
    """Which numbers an option takes; only options of numbers can be given a text of the wrong type."""
    kind = "a whole number" if "int" in parameter.bare_type() else "a number"
    return kind if parameter.min is None else f"{kind} from {parameter.min:g}"


_COLOURS = {"error:": "\x1b[1;31m", "expected:": "\x1b[1m", "found:": "\x1b[1m", "hint:": "\x1b[1;36m"}
_PLAIN = "\x1b[0m"


def _print_coloured(text: str, stream: TextIO) -> None:
    if stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        lines = []
        for line in text.splitlines():
            label, space, rest = line.partition(" ")
            lines.append(f"{_COLOURS[label]}{label}{_PLAIN}{space}{rest}" if label in _COLOURS else line)
        text = "\n".join(lines)
    stream.write(text + "\n")
