"""Keeps an output from replacing a file of another kind, which a mistyped option may name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgekit.errors import InputError
from edgekit.files.bundle_folder import require_outside_bundles

_READ = 256


def require_kind(path: Path, what: str, is_one: Callable[[bytes], bool], *, chosen_with: str = "-o") -> None:
    """Checks that the file in an output's place, if there is one, is of the output's kind. An empty file may go.

    Args:
        path: The output's name.
        what: What the output is, for the error's text (``an HTML file``).
        is_one: Whether a file that begins with these bytes is one.
        chosen_with: The option that names the output, for the hint.

    Raises:
        InputError: A file of another kind is there, or the place is in a bundle.
    """
    require_outside_bundles(path)
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(_READ)
    if head and not is_one(head):
        hint = f"choose another name with {chosen_with}, or remove it first"
        raise InputError(f"exists and is not {what}", subject=path, hint=hint)
