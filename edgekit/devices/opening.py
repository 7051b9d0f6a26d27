"""Finds the device that a URL names."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from edgekit.devices import LOCAL
from edgekit.devices.device import Device
from edgekit.errors import InputError
from edgekit.quantizer import Progress

SCHEMES: Mapping[str, tuple[str, str, str]] = {
    LOCAL: ("local", "edgekit.devices.local", "LocalDevice"),
    "ssh": ("ssh://user@host[:port]", "edgekit.devices.ssh", "SshDevice"),
    "adb": ("adb:[serial]", "edgekit.devices.adb", "AdbDevice"),
    "browser": ("browser:[wasm|webgpu|jsep]", "edgekit.devices.browser", "BrowserDevice"),
    "qemu": ("qemu:arm64", "edgekit.devices.qemu", "QemuDevice"),
    "macos": ("macos", "edgekit.devices.macos", "MacosDevice"),
    "xcode": ("xcode", "edgekit.devices.xcode", "XcodeDevice"),
}
"""What a URL begins with: how the URL is written, and the module and class that it stands for."""


def open_device(url: str, timeout: float | None = None, step: Progress | None = None) -> Device:
    """The device that ``url`` names; nothing is started or connected yet.

    Args:
        url: Scheme and address, as in :data:`SCHEMES`.
        timeout: Seconds that the device may be silent, where its own default is not what is wanted.
        step: Told how far the bundle's way to the device is.

    Raises:
        InputError: There is no such scheme, or the URL is not written as its scheme asks.
    """
    scheme = url.partition(":")[0]
    if scheme not in SCHEMES:
        raise InputError(
            "there is no such kind of device",
            subject="--device",
            expected=", ".join(form for form, _, _ in SCHEMES.values()),
            found=url,
        )
    _, module, name = SCHEMES[scheme]
    device = cast("Device", getattr(import_module(module), name).from_url(url))
    if timeout is not None:
        device.timeout = timeout
    device.step = step
    return device
