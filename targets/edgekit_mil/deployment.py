"""Deployment targets: the system versions, each of which has a set of MIL operators."""

from __future__ import annotations

from edgekit.errors import InputError

TARGETS = ("iOS16", "iOS17", "iOS18", "iOS26")
COMPRESSED_SINCE = {"int4-weights": "iOS18", "palette4": "iOS16", "palette6": "iOS16", "palette8": "iOS16"}
"""Ways to store weights, and the first deployment target that has each."""
STATES_SINCE = "iOS18"


def deployment_target(name: str) -> str:
    """The deployment target's name as coremltools spells it.

    Raises:
        edgekit.errors.InputError: There is no target of this name.
    """
    found = next((target for target in TARGETS if target.lower() == name.lower()), None)
    if found is None:
        raise InputError("unknown deployment target", expected=", ".join(TARGETS), found=name)
    return found


def has_states(target: str) -> bool:
    """Whether programs for a deployment target can keep states."""
    return TARGETS.index(target) >= TARGETS.index(STATES_SINCE)


def compression_schemes(target: str) -> tuple[str, ...]:
    """The ways to store weights that a deployment target has."""
    place = TARGETS.index(target)
    return tuple(scheme for scheme, since in COMPRESSED_SINCE.items() if TARGETS.index(since) <= place)
