"""Deployment targets: which system version stands for which set of MIL operators."""

from __future__ import annotations

from edgekit.errors import InputError

TARGETS = ("iOS16", "iOS17", "iOS18", "iOS26")


def deployment_target(name: str) -> str:
    """The deployment target's name as coremltools spells it.

    Raises:
        edgekit.errors.InputError: There is none of that name.
    """
    found = next((target for target in TARGETS if target.lower() == name.lower()), None)
    if found is None:
        raise InputError("unknown deployment target", expected=", ".join(TARGETS), found=name)
    return found
