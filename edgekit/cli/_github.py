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


def require_appendable(file: Path | None) -> None:
    """Checks before long work that a summary can be appended to the file of ``--summary``; devices and pipes can.

    Raises:
        InputError: It cannot.
    """
    from edgekit.files.atomic import require_writable

    if file is not None and (file.is_file() or file.is_dir() or not file.exists()):
        require_writable(file, chosen_with="--summary")


def append_summary(file: Path | None, text: str) -> None:
    """Appends Markdown to a file, by default the summary of GitHub's job, where there is one. Folders above are made.

    Raises:
        InputError: It cannot be written.
    """
    told = file or os.environ.get(SUMMARY_VARIABLE)
    if not (told and text):
        return
    try:
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        with Path(told).open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise InputError(f"cannot be written: {(error.strerror or str(error)).lower()}", subject=told) from error
