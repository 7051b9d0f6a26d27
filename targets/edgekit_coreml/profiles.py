"""Device profiles of Core ML builds: one for each system version, which decides what operations there are."""

from __future__ import annotations

import platform

from edgekit.target import Profile
from edgekit_coreml.units import NEURAL_ENGINE
from edgekit_mil.deployment import TARGETS

_EXECUTED = "" if platform.system() == "Darwin" else "; executed here by EdgeKit's reference runtime, not by Core ML"


def _profile(deployment_target: str, *aliases: str) -> Profile:
    version = deployment_target.removeprefix("iOS")
    return Profile(
        deployment_target.lower(),
        f"iPhone, iPad and Mac from iOS {version} on, Core ML ML Program{_EXECUTED}",
        {"deployment_target": deployment_target},
        aliases=aliases,
        runs_here=False,
        accelerator=NEURAL_ENGINE,
        runs_on_processors=platform.system() == "Darwin",
    )


DEFAULT = "iOS18"
_MACS = {"iOS16": "macos13", "iOS17": "macos14", "iOS18": "macos15", "iOS26": "macos26"}
"""The macOS of the same generation, which loads the same packages (coremltools' table of deployment targets)."""
PROFILES = (
    _profile(DEFAULT, "coreml", "ios", _MACS[DEFAULT], "macos"),
    *(_profile(target, _MACS[target]) for target in TARGETS if target != DEFAULT),
)
