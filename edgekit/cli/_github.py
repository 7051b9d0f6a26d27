"""What GitHub Actions tells a command by the environment, and where it wants to be told."""

from __future__ import annotations

import os
from pathlib import Path

from edgekit.errors import InputError

ACTIONS_VARIABLE = "GITHUB_ACTIONS"
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"


def in_actions() -> bool:
    """Whether the command runs in GitHub Actions."""
    return os.environ.get(ACTIONS_VARIABLE) == "true"


def append_summary(file: Path | None, text: str) -> None:
    """Appends Markdown to a file, by default the summary of GitHub's job, where there is one.

    Raises:
        InputError: It cannot be written.
    """
    told = file or os.environ.get(SUMMARY_VARIABLE)
    if not (told and text):
        return
    try:
        with Path(told).open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise InputError(f"cannot be written: {(error.strerror or str(error)).lower()}", subject=told) from error
