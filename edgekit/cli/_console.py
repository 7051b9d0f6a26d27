"""The output of a command: its result on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import typer

from edgekit.errors import RequirementError
from edgekit.processes.supervision import SupervisedProgress
from edgekit.progress import Progress
from edgekit.terminal.foreign_text import SafeStream, escaped, escaped_json
from edgekit.terminal.progress import progress_on

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

PIPE_WIDTH = 100
"""Width of a table in a pipe, in characters. Longer cells are wrapped, not cut, and a table of many columns is as wide
as its words need. ``COLUMNS`` overrides it."""


_RESULTS: ContextVar[TextIO] = ContextVar("results")


@contextmanager
def results_alone_on_stdout() -> Iterator[None]:
    """Redirects what plugins or a function of ``--metric`` print to stderr, so that stdout holds only the result."""
    token = _RESULTS.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _RESULTS.reset(token)


class Console:
    """The output of one run of one command."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet

    @cached_property
    def progress(self) -> Progress:
        """The progress display: only warnings with ``--quiet``, nothing with ``--json``, whose record holds them."""
        return SupervisedProgress(Progress() if self.as_json else progress_on(sys.stderr, quiet=self.quiet))

    def show(self, record: Mapping[str, Any], render: Callable[[RichConsole], None]) -> None:
        """Prints the command's result on stdout; called once by a command.

        Args:
            record: The result as plain data, printed with ``--json``.
            render: Prints the result for people.
        """
        if self.as_json:
            document = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
            results = _RESULTS.get(sys.stdout)
            results.write(escaped_json(document) + "\n")
            results.flush()
        else:
            render(_rich_console())
            sys.stdout.flush()

    def note(self, text: str) -> None:
        """Prints a note on stderr, such as which file was written; silent with ``--json`` and ``--quiet``."""
        if not (self.as_json or self.quiet):
            sys.stderr.write(escaped(text) + "\n")

    def warn(self, text: str) -> None:
        """Prints a warning although the command succeeds; silent with ``--json``."""
        self.progress.warn(text)

    def say(self, line: str) -> None:
        """Prints a line on stderr that a CI reads from the log, even with ``--quiet`` or ``--json``."""
        if isinstance(sys.stderr, SafeStream):
            sys.stderr.write_command(line)
        else:
            sys.stderr.write(escaped(line) + "\n")

    def error(self, text: str) -> None:
        """Prints an error on stderr, whether or not the command goes on."""
        sys.stderr.write(f"error: {escaped(text)}\n")

    def fail(self, text: str, exit_code: int = RequirementError.exit_code) -> NoReturn:
        """Ends a command that did its work, with a negative result.

        The result has been shown already, so the text is only printed on stderr.
        """
        self.error(text)
        raise typer.Exit(exit_code)


def _rich_console() -> RichConsole:
    from edgekit.terminal.escaping_console import EscapingConsole

    asked = os.environ.get("COLUMNS", "")
    width = None if sys.stdout.isatty() else int(asked) if asked.isdecimal() and int(asked) else PIPE_WIDTH
    return EscapingConsole(file=sys.stdout, width=width, markup=False, highlight=False, soft_wrap=False)
