"""The check that ships in ONNX Runtime bundles, and the code with which apps open a session as the check does."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

from edgekit.device_check.python_check import python_check
from edgekit.target import Artifact, DeviceCheck, Profile
from edgekit_onnxruntime.devices import BROWSERS, Device, device_of
from edgekit_onnxruntime.session_code import session_code
from edgekit_onnxruntime.session_recipe import SESSION_FILE, Options, SessionRecipe, session_text

OPEN_SESSION = "open_session.py"


def device_check(profile: Profile, artifact: Artifact) -> DeviceCheck:
    """The check of a bundle: a page for browsers; otherwise a Python program that only needs NumPy and ONNX Runtime.

    For a provider of a device file, ``session.json`` and the code that opens a session by it are added.
    """
    if profile.options["provider"] in BROWSERS:
        return DeviceCheck(
            files={name: _asset(name) for name in ("check.html", "check.css", "check_page.mjs", "check.mjs")},
            command="python -m http.server --bind localhost, then open http://localhost:8000/{folder}check.html",
        )
    check = python_check("edgekit_onnxruntime")
    device = device_of(profile)
    session = {} if device is None else _session_files(device, artifact)
    return replace(check, files={**check.files, OPEN_SESSION: _asset(OPEN_SESSION), **session})


def _session_files(device: Device, artifact: Artifact) -> dict[str, str]:
    """``session.json``, and its content as code in the languages that apps for the device are written in."""
    recipe = device.session or SessionRecipe("", "", Options())  # without session.json, the check would use the CPU
    precision = str(artifact.record.get("precision_asked", "auto"))
    record = recipe.record(device.provider, precision, artifact.inputs, artifact.dimensions)
    return {SESSION_FILE: session_text(record), **session_code(device.profile.name, record)}


def _asset(name: str) -> str:
    return files("edgekit_onnxruntime").joinpath("assets", name).read_text(encoding="utf-8")
