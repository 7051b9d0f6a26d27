"""The check that ships in Core ML bundles."""

from __future__ import annotations

from edgekit.python_check import python_check
from edgekit.target import DeviceCheck


def device_check() -> DeviceCheck:
    """A Python program for a Mac that needs NumPy and coremltools only."""
    return python_check("edgekit_coreml")
