"""The check that ships in Core ML bundles."""

from __future__ import annotations

from importlib.resources import files

from edgekit.target import DeviceCheck


def device_check() -> DeviceCheck:
    """A Python program for a Mac that needs NumPy and coremltools only."""
    return DeviceCheck(
        files={
            "check.py": files("edgekit_coreml").joinpath("assets/check.py").read_text(encoding="utf-8"),
            "golden_check.py": files("edgekit").joinpath("golden_check.py").read_text(encoding="utf-8"),
        },
        command="python check.py",
    )
