"""The kinds of device that Core AI models are built for."""

from __future__ import annotations

from edgekit.target import Profile
from edgekit_coreai.availability import is_available

NEURAL_ENGINE = "Neural Engine"
_WHERE = (
    "executed here by Apple's own runtime on the CPU"
    if is_available()
    else "needs the package coreai-core, whose wheels are for Linux on x86-64 and for macOS"
)


def _profile(name: str, system: str, deployment_target: str, *aliases: str) -> Profile:
    return Profile(
        name,
        f"{system}, Core AI model; {_WHERE}",
        {"deployment_target": deployment_target},
        aliases=aliases,
        runs_here=False,
        accelerator=NEURAL_ENGINE,
    )


PROFILES = (
    _profile("ios27", "iPhone and iPad from iOS 27 on", "iOS27", "coreai"),
    _profile("macos27", "Mac from macOS 27 on", "macOS27"),
)
