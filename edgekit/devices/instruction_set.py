"""This machine, with its runtime held to an instruction set: ``isa:avx2``.

Integers that are multiplied and added by other instructions may give other numbers: processors without VNNI add two
products in 16 bits, with saturation. A bundle that is right here need not be right on an older processor.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self

from edgekit.bundle import Bundle
from edgekit.device import Device, Session
from edgekit.device_check.python_check import IN_DEFAULT_PRECISION, SERVE
from edgekit.devices.channel import Channel
from edgekit.devices.own_check import with_own_check
from edgekit.devices.service_session import ServiceSession, require_python_check
from edgekit.errors import InputError, RequirementError
from edgekit.registry import find_profile

SCHEME = "isa"
FLAGS = {
    "avx2": ("avx2",),
    "avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
    "vnni": ("avx512_vnni",),
    "amx": ("amx_tile", "amx_int8"),
}
"""Instruction sets by what users call them, each with the flags that Linux shows of a processor that has it."""
CPUINFO = Path("/proc/cpuinfo")


class MissingInstructionsError(InputError):
    """This processor does not have the instructions."""


class InstructionSetDevice(Device):
    """The bundle's own check in a process whose runtime uses no instructions beyond a set.

    Args:
        name: One of :data:`FLAGS`.
    """

    contract_version = 1
    url_form = f"{SCHEME}:{'|'.join(FLAGS)}"

    def __init__(self, name: str) -> None:
        self._name = name

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The device.

        Raises:
            InputError: It is no known instruction set.
            MissingInstructionsError: This processor does not have it.
        """
        name = url.removeprefix(f"{SCHEME}:")
        if name not in FLAGS:
            raise InputError(
                "no such instruction set",
                subject=url,
                expected=", ".join(FLAGS),
                found=name,
                hint="qemu:arm64 emulates a processor with Neon",
            )
        missing = [flag for flag in FLAGS[name] if flag not in processor_flags()]
        if missing:
            raise MissingInstructionsError(
                "this processor does not have the instructions", subject=url, found=f"no {', '.join(missing)}"
            )
        return cls(name)

    def open(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """The bundle's check, in a process of its own.

        Raises:
            RequirementError: The bundle's runtime cannot be held to an instruction set, or the check cannot run.
        """
        return self._open(bundle, SERVE)

    def open_in_default_precision(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """The bundle's check, in the precision that the runtime chooses by itself with these instructions."""
        return self._open(bundle, (*SERVE, IN_DEFAULT_PRECISION))

    @contextmanager
    def _open(self, bundle: Bundle, arguments: Sequence[str]) -> Iterator[Session]:
        url = f"{SCHEME}:{self._name}"
        require_python_check(bundle, url)
        target, _ = find_profile(bundle.profile_name)
        environment = target.held_to(self._name)
        if environment is None:
            raise RequirementError(
                "its runtime has no switch that holds it to an instruction set",
                subject=url,
                found=bundle.profile_name,
            )
        command = [sys.executable, *arguments]
        with (
            with_own_check(bundle) as ours,
            Channel(command, self.timeout, folder=ours.path, environment=dict(environment)) as channel,
        ):
            yield HeldSession(channel, bundle, url)


class HeldSession(ServiceSession):
    """A check whose runtime is held to an instruction set."""

    @property
    def executed_by(self) -> str:
        """What the check says, and the instruction set."""
        return f"{super().executed_by}, {self._device}"


def processor_flags() -> frozenset[str]:
    """What Linux shows of this processor's instructions; empty on other systems."""
    if not CPUINFO.is_file():
        return frozenset()
    lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), ()))
