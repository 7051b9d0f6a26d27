"""Devices behind Xcode, such as an iPhone: Xcode runs the bundle's check on them, and EdgeKit reads the results."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Self

from edgekit.bundle import Bundle
from edgekit.device import Device, Session
from edgekit.errors import InputError


class XcodeDevice(Device):
    """A device that cannot be opened: the error says how to run the bundle's check by hand in Xcode."""

    contract_version = 1
    url_form = "xcode"
    reached_by_results = True

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Returns the device, which has no settings.

        Raises:
            InputError: Something follows the scheme.
        """
        if url != "xcode":
            raise InputError("Xcode chooses the device", subject="--device", expected="xcode", found=url)
        return cls()

    def open(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Always fails: EdgeKit cannot open a device behind Xcode.

        Raises:
            InputError: Always.
        """
        raise InputError(
            "devices behind Xcode are not reached from here",
            subject="--device xcode",
            expected="--results FILE, with what the bundle's check wrote on the device",
            hint=f"open a copy of {bundle.path} in Xcode, run its tests, and give the file that they write",
        )
