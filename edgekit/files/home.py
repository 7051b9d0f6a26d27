"""The user's home folder, also of a user whom the system does not know."""

from __future__ import annotations

from pathlib import Path


def home_folder() -> Path:
    """The home folder; ``/`` where neither HOME nor the system's list of users tells one.

    Containers run with such users. ``/`` is what Docker sets HOME to for them.
    """
    try:
        return Path.home()
    except RuntimeError:  # Path.home() raises it
        return Path("/")
