"""The check that ships in ONNX Runtime bundles."""

from __future__ import annotations

from importlib.resources import files

from edgekit.device_check.python_check import python_check
from edgekit.target import DeviceCheck, Profile


def device_check(profile: Profile) -> DeviceCheck:
    """A page for browsers; for everything else a Python program that needs NumPy and ONNX Runtime only."""
    if profile.options["provider"] in ("wasm", "webgpu"):
        return DeviceCheck(
            files={name: _asset(name) for name in ("check.html", "check.mjs")},
            command="python -m http.server, then open http://localhost:8000/check.html",
        )
    return python_check("edgekit_onnxruntime")


def _asset(name: str) -> str:
    return files("edgekit_onnxruntime").joinpath("assets", name).read_text(encoding="utf-8")
