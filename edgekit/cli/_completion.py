"""Shell completion for options that name something installed; the plugins are loaded when the shell asks."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_SCHEME = re.compile(r"[\w-]+(?::(?://)?)?")

_FLAGS = ("--install-completion", "--show-completion")


def asks_for_completion(arguments: Sequence[str]) -> bool:
    """Whether a shell asks for completions, or a user for the completion script; no command runs then."""
    return "_EDGEKIT_COMPLETE" in os.environ or (bool(arguments) and arguments[0].startswith(_FLAGS))


def profile_names(incomplete: str) -> list[str]:
    """The names of device profiles that begin with ``incomplete``."""
    from edgekit.registry import installed_targets

    names = (profile.name for _, profile in installed_targets().profiles())
    return [name for name in names if name.startswith(incomplete)]


def device_schemes(incomplete: str) -> list[str]:
    """The fixed beginnings of devices' URLs that begin with ``incomplete``: ``ssh://`` of ``ssh://USER@HOST``."""
    from edgekit.registry import device_forms

    begun = [found[0] for form in device_forms() if (found := _SCHEME.match(form))]
    return [begin for begin in begun if begin.startswith(incomplete)]
