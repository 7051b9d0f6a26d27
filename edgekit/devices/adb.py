"""An Android device that answers to ``adb``: ``adb:[serial]``."""

from __future__ import annotations

from typing import Self
from urllib.parse import parse_qs

from edgekit.devices.channel import HungUpError
from edgekit.devices.remote import RemoteDevice
from edgekit.errors import InputError

FORM = "adb:[serial][?python=COMMAND&folder=FOLDER]"
FOLDER = "/data/local/tmp"
"""The folder that adb's shell may write to on every Android device."""
_PARAMETERS = {"python", "folder"}
_REFUSAL = ("error: ", "adb: ")
"""How messages of ``adb`` itself begin."""


class AdbDevice(RemoteDevice):
    """A device with Android's debugging switched on, and a Python that its shell can start.

    Args:
        url: How errors name the device.
        serial: The device's serial number, needed if several devices answer.
        python: The Python command on the device.
        folder: The folder on the device that the bundle is copied into.
    """

    contract_version = 1
    url_form = FORM

    def __init__(self, url: str, serial: str | None = None, python: str = "python3", folder: str = FOLDER) -> None:
        chosen = [] if serial is None else ["-s", serial]
        super().__init__(url, ["adb", *chosen, "shell", "-T"], python, folder)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The device that ``url`` names.

        Raises:
            InputError: The URL is not of the form :data:`FORM`.
        """
        address, _, parameters = url.partition("?")
        serial = address.partition(":")[2]
        query = {name: values[-1] for name, values in parse_qs(parameters).items()}
        if set(query) - _PARAMETERS:
            raise InputError("is not an address of a device", subject="--device", expected=FORM, found=url)
        return cls(address, serial or None, query.get("python", "python3"), query.get("folder", FOLDER))

    def unreachable(self, end: HungUpError) -> InputError | None:
        """The error if no device answers to adb; None if one does."""
        if not end.last_words.startswith(_REFUSAL):
            return None
        return InputError(
            "no device answers",
            subject=self._url,
            found=end.last_words,
            hint="`adb devices` lists those that do; debugging has to be allowed on the device",
        )
