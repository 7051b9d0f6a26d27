"""Finds the device that a URL names."""

from __future__ import annotations

from edgekit.device import Device
from edgekit.errors import InputError
from edgekit.progress import Step
from edgekit.registry import device_class, device_forms


def open_device(url: str, timeout: float | None = None, step: Step | None = None) -> Device:
    """The device that ``url`` names; nothing is started or connected yet.

    Args:
        url: The scheme of an installed device, and the address that follows it.
        timeout: Seconds that the device may be silent, where its own default is not what is wanted.
        step: Told how far the bundle's way to the device is.

    Raises:
        InputError: There is no such scheme, or the URL is not written as its scheme asks.
    """
    found = device_class(url.partition(":")[0])
    if found is None:
        raise InputError(
            "there is no such kind of device", subject="--device", expected=", ".join(device_forms()), found=url
        )
    device = found.from_url(url)
    if timeout is not None:
        device.timeout = timeout
    device.step = step
    return device
