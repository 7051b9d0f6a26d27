"""What Xcode runs the bundle's own check on, such as an iPhone: EdgeKit does not reach it, but reads its results."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Self

from edgekit.bundle import Bundle
from edgekit.device import Device, Session
from edgekit.errors import InputError


class XcodeDevice(Device):
    """Says what to do, since Xcode has to be run by hand."""

    contract_version = 1
    url_form = "xcode"
    reached_by_results = True

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The device, which has nothing to choose.

        Raises:
            InputError: Something follows the scheme.
        """
        if url != "xcode":
            raise InputError("Xcode chooses the device", subject="--device", expected="xcode", found=url)
        return cls()

    def open(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Nothing can be opened from here.

        Raises:
            InputError: Always.
        """
        raise InputError(
            "devices behind Xcode are not reached from here",
            subject="--device xcode",
            expected="--results FILE, with what the bundle's check wrote on the device",
            hint=f"open a copy of {bundle.path} in Xcode, run its tests, and give the file that they write",
        )
