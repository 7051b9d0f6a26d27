"""The user's home folder, even for a user that the system does not know."""

from __future__ import annotations

from pathlib import Path


def home_folder() -> Path:
    """The home folder; ``/`` if neither HOME nor the system's list of users names one.

    Containers run with such users. ``/`` is what Docker sets HOME to for them.
    """
    try:
        return Path.home()
    except RuntimeError:  # Path.home() raises it
        return Path("/")
