"""The check that ships in ONNX Runtime bundles."""

from __future__ import annotations

from importlib.resources import files

from edgekit.target import DeviceCheck


def device_check() -> DeviceCheck:
    """A Python program that needs NumPy and ONNX Runtime only."""
    return DeviceCheck(
        files={
            "check.py": files("edgekit_onnxruntime").joinpath("assets/check.py").read_text(encoding="utf-8"),
            "golden_check.py": files("edgekit").joinpath("golden_check.py").read_text(encoding="utf-8"),
        },
        command="python check.py",
    )
