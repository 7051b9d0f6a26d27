"""Finds the device that a URL names."""

from __future__ import annotations

from pathlib import Path

from edgekit.device import Device
from edgekit.devices import LOCAL
from edgekit.devices.results import ResultsDevice
from edgekit.errors import InputError
from edgekit.progress import Step
from edgekit.registry import device_class, device_forms

FLAG = "--device"
"""The flag that names a device on the command line."""


def open_device(
    url: str,
    timeout: float | None = None,
    step: Step | None = None,
    results: Path | None = None,
    named_by: str = FLAG,
) -> Device:
    """The device that ``url`` names; nothing is started or connected yet.

    Args:
        url: The scheme of an installed device, and the address that follows it.
        timeout: Seconds without an answer after which the device counts as gone; None for the device's own default.
        step: Called with the progress of bringing the bundle to the device.
        results: The file of results that the device wrote, if EdgeKit does not connect to it.
        named_by: The flag that holds the URL, or the place in a project file; errors name it.

    Raises:
        InputError: There is no such scheme, or the URL is not written as its scheme asks; the timeout is not above 0;
            or results are given for a device that does not write any.
    """
    if timeout is not None and not timeout > 0:
        raise InputError("is not a time", subject="--device-timeout", expected="seconds, more than 0", found=timeout)
    found = device_class(url.partition(":")[0])
    if found is None:
        raise InputError(
            "there is no such kind of device", subject=named_by, expected=", ".join(device_forms()), found=url
        )
    try:
        device = found.from_url(url)
    except InputError as error:
        if error.subject == FLAG:
            error.subject = named_by
        raise
    if timeout is not None:
        device.timeout = timeout
    device.step = step
    if results is None:
        return device
    if url != LOCAL and not device.reached_by_results:
        raise InputError(
            "results come from a device that is not reached from here",
            subject="--results",
            expected="no --device, or one that writes results",
            found=url,
        )
    return ResultsDevice(results)
