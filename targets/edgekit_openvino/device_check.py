"""The check that ships in OpenVINO bundles."""

from __future__ import annotations

from edgekit.device_check.python_check import python_check
from edgekit.target import DeviceCheck


def device_check() -> DeviceCheck:
    """A Python program that needs NumPy and OpenVINO only."""
    return python_check("edgekit_openvino")
