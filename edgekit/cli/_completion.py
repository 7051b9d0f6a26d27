"""What a shell offers for options that name something installed. It loads the plugins when the shell asks."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_SCHEME = re.compile(r"[\w-]+(?::(?://)?)?")

_FLAGS = ("--install-completion", "--show-completion")


def asks_for_completion(arguments: Sequence[str]) -> bool:
    """Whether a shell asks what to offer, or somebody for the script that has it ask; no command runs then."""
    return "_EDGEKIT_COMPLETE" in os.environ or (bool(arguments) and arguments[0].startswith(_FLAGS))


def profile_names(incomplete: str) -> list[str]:
    """The device profiles whose names begin so."""
    from edgekit.registry import installed_targets

    names = (profile.name for _, profile in installed_targets().profiles())
    return [name for name in names if name.startswith(incomplete)]


def device_schemes(incomplete: str) -> list[str]:
    """The devices whose URLs begin so, up to what is one's own: ``ssh://`` of ``ssh://USER@HOST``."""
    from edgekit.registry import device_forms

    begun = [found[0] for form in device_forms() if (found := _SCHEME.match(form))]
    return [begin for begin in begun if begin.startswith(incomplete)]
