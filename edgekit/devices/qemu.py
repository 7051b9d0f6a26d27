"""Processors emulated by QEMU's user mode: ``qemu:arm64``, and older x86 processors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self

from edgekit.bundle import Bundle
from edgekit.device import Device, Session
from edgekit.device_check.python_check import IN_DEFAULT_PRECISION, ON_PROCESSOR, SERVE
from edgekit.devices.channel import Channel
from edgekit.devices.own_check import with_own_check
from edgekit.devices.service_session import ServiceSession, require_python_check
from edgekit.errors import InputError
from edgekit.files.home import home_folder

URL = "qemu:arm64"
FOLDER_VARIABLE = "EDGEKIT_QEMU_ARM64"
"""Environment variable that names the folder with QEMU and the arm64 runtimes."""
PYTHON = "3.13"
"""The arm64 Python in that folder."""
RECORD = "installed.json"
"""The file that is in the folder once everything is installed."""
X86_PROGRAM = "qemu-x86_64"
CPU = "cortex-a76"
"""The emulated processor. With the scalable vectors of later processors, OpenVINO computes wrong results in QEMU."""


def qemu_folder() -> Path:
    """Where QEMU and the arm64 runtimes are: what :data:`FOLDER_VARIABLE` names, else a folder in the user's cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else home_folder() / ".cache" / "edgekit" / "qemu-arm64"


def x86_emulator() -> Path | None:
    """The QEMU that emulates other x86 processors for programs of this x86 system; None if it is not installed."""
    ours = qemu_folder() / "usr" / "bin" / X86_PROGRAM
    if os.path.isfile(ours):  # noqa: PTH113  # False if the folder may not be read
        return ours
    found = shutil.which(X86_PROGRAM)
    return None if found is None else Path(found)


class QemuDevice(Device):
    """Runs the arm64 builds of the runtimes on this machine, to check their arithmetic; their speed means nothing."""

    contract_version = 1
    url_form = URL

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Returns the device.

        Raises:
            InputError: The URL names another processor.
        """
        if url != URL:
            raise InputError("no other processor is emulated", subject="--device", expected=URL, found=url)
        return cls()

    @staticmethod
    def is_installed() -> bool:
        """Whether QEMU and the arm64 runtimes are there."""
        return os.path.isfile(qemu_folder() / RECORD)  # noqa: PTH113  # False if the folder may not be read

    def open(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Starts the bundle's check in an emulated process.

        Raises:
            InputError: QEMU and the arm64 runtimes are not installed.
            RequirementError: The bundle has no check for Python, or its model cannot be loaded.
        """
        return self._open(bundle, (*SERVE, ON_PROCESSOR))

    def open_in_default_precision(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Starts the check in an emulated process, in the precision that the runtime chooses for the processor."""
        return self._open(bundle, (*SERVE, ON_PROCESSOR, IN_DEFAULT_PRECISION))

    @contextmanager
    def _open(self, bundle: Bundle, arguments: Sequence[str]) -> Iterator[Session]:
        folder = qemu_folder()
        if not self.is_installed():
            raise InputError(
                "QEMU and the arm64 runtimes are not installed",
                subject="--device",
                expected=folder,
                hint="`make qemu` in EdgeKit's repository installs them (about 150 MB are downloaded)",
            )
        sysroot = folder / "sysroot"
        python = sysroot / "usr" / "bin" / f"python{PYTHON}"
        command = [folder / "usr" / "bin" / "qemu-aarch64", "-L", sysroot, python, "-s", *arguments]
        environment = {"QEMU_CPU": CPU, "PYTHONPATH": str(folder / "site")}
        words = [str(part) for part in command]
        with with_own_check(bundle) as ours:
            require_python_check(ours, URL)
            with Channel(words, self.timeout, folder=ours.path, environment=environment) as run:
                yield EmulatedSession(run, bundle, URL, f"{CPU} in QEMU")


class EmulatedSession(ServiceSession):
    """A session with a check that an emulator runs.

    Args:
        channel: The channel to the check.
        bundle: The bundle that the check belongs to.
        device: How errors name the device.
        emulated: The processor and its emulator.
    """

    def __init__(self, channel: Channel, bundle: Bundle, device: str, emulated: str) -> None:
        super().__init__(channel, bundle, device)
        self._emulated = emulated

    @property
    def executed_by(self) -> str:
        """What the check says of itself, with the processor and its emulator."""
        return f"{super().executed_by}, {self._emulated}"

    @property
    def is_stand_in(self) -> bool:
        """An emulator's times say nothing about a processor."""
        return True
