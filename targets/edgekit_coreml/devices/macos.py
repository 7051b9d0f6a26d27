"""This Mac's Core ML: ``macos``, or ``macos:UNITS`` with the units that Core ML may compute on."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from edgekit.bundle import Bundle
from edgekit.device import Device, Session
from edgekit.device_check.python_check import PROGRAM
from edgekit.devices.channel import Channel
from edgekit.devices.service_session import ServiceSession, require_python_check
from edgekit.errors import InputError

UNITS = ("ALL", "CPU_ONLY", "CPU_AND_GPU", "CPU_AND_NE")
"""The values of ``--units`` that ``check.py`` of a Core ML bundle accepts."""


class MacosDevice(Device):
    """Core ML itself, through the check that lies in the bundle.

    Args:
        units: One of :data:`UNITS`.
    """

    contract_version = 1
    url_form = "macos"

    def __init__(self, units: str) -> None:
        self._units = units

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The device that ``macos:UNITS`` names; ``macos`` alone lets Core ML choose.

        Raises:
            InputError: Core ML has no units of this name.
        """
        units = url.partition(":")[2] or UNITS[0]
        if units not in UNITS:
            raise InputError(
                "Core ML has no such units",
                subject="--device",
                expected=", ".join(f"macos:{name}" for name in UNITS),
                found=url,
            )
        return cls(units)

    @contextmanager
    def open(self, bundle: Bundle) -> Iterator[Session]:
        """Yields a session with the bundle's check, which runs as a server in a separate process.

        Raises:
            InputError: This is no Mac.
            RequirementError: The bundle is for something else, or its check cannot run.
        """
        if platform.system() != "Darwin":
            raise InputError(
                "Core ML is on macOS only",
                subject="--device macos",
                found=platform.system(),
                hint="--device local executes Core ML bundles in EdgeKit's reference runtime on any system",
            )
        require_python_check(bundle, "macos")
        command = [sys.executable, PROGRAM, "--serve", "--units", self._units]
        with Channel(command, self.timeout, folder=bundle.path) as channel:
            yield ServiceSession(channel, bundle, "macos")
