"""Whether Apple's Core AI is installed on this machine, its requirement and its version."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform

from edgekit.errors import InputError

REQUIREMENT = "coreai-core==1.0.0b3"
"""The requirement to install with pip, the same as in the extra ``coreai`` of EdgeKit's distribution."""


def is_available() -> bool:
    """Whether ``coreai-core`` is installed."""
    return importlib.util.find_spec("coreai") is not None


def require_core_ai() -> None:
    """Raise an error if ``coreai-core`` is not installed.

    Raises:
        edgekit.errors.InputError: ``coreai-core`` is not installed.
    """
    if not is_available():
        raise InputError(
            "Apple's Core AI is not installed",
            subject="coreai-core",
            expected="the package coreai-core, which has wheels for Linux on x86-64 and for macOS",
            found=f"none, on {platform.system()} {platform.machine()}",
            hint=f"pip install '{REQUIREMENT}'",
        )


def version() -> str:
    """The version of ``coreai-core``, or an empty string if it is not installed."""
    return importlib.metadata.version("coreai-core") if is_available() else ""


def executed_by() -> str:
    """The name and version of the runtime that executes models on this machine, the device and the system."""
    system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    return f"Apple's Core AI runtime {version()}, CPU, on {system}"
