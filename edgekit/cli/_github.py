"""GitHub Actions: detects it by the environment, and writes annotations and the job's summary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgekit.cli._console import Console
from edgekit.errors import EdgeKitError, InputError

ACTIONS_VARIABLE = "GITHUB_ACTIONS"
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"


def in_actions() -> bool:
    """Whether the command runs in GitHub Actions."""
    return os.environ.get(ACTIONS_VARIABLE) == "true"


def require_appendable(file: Path | None) -> None:
    """Checks before long work that a summary can be appended to the file of ``--summary``; devices and pipes can.

    Raises:
        InputError: The summary cannot be appended to the file.
    """
    from edgekit.files.atomic import require_writable

    if file is not None and (file.is_file() or file.is_dir() or not file.exists()):
        require_writable(file, chosen_with="--summary")


def append_summary(file: Path | None, text: str) -> None:
    """Appends Markdown to a file, by default to the summary of GitHub's job, if there is one. Makes folders above it.

    Raises:
        InputError: The file cannot be written.
    """
    path = file or os.environ.get(SUMMARY_VARIABLE)
    if not (path and text):
        return
    try:
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as stream:  # of names that are not UTF-8
            stream.write(text)
    except OSError as error:
        raise InputError(f"cannot be written: {(error.strerror or str(error)).lower()}", subject=path) from error


@contextmanager
def error_in_actions(
    console: Console, command: str, summary: Path | None = None, *, annotate: bool = False
) -> Iterator[None]:
    """Reports an error that ends the command to GitHub Actions: as an annotation, and in the job's summary.

    Such an error comes before there are results of a bundle, and would otherwise only be in the log.

    Args:
        console: The console on which annotations are printed.
        command: The name of the command in the summary.
        summary: The file of ``--summary``.
        annotate: Whether annotations are requested outside of GitHub Actions, too.

    Raises:
        InputError: The summary cannot be written.
    """
    try:
        yield
    except EdgeKitError as error:
        if annotate or in_actions():
            from edgekit.quality_gate.annotations import workflow_command

            console.say(workflow_command("error", {"title": command}, str(error)))
        if summary is not None or in_actions():
            lines = "\n".join(f"    {line}" for line in str(error).splitlines())
            append_summary(summary, f"## ❌ {command} ended with an error\n\n{lines}\n")
        raise
