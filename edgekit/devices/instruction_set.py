"""This machine, with its runtime restricted to an instruction set: ``isa:avx2``.

Other instructions may give other results of multiplying and adding integers: processors without VNNI add two products
in 16 bits, with saturation. A bundle that is correct here need not be correct on an older processor.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self

from edgekit import instruction_sets
from edgekit.bundle import Bundle
from edgekit.device import Device, Session
from edgekit.device_check.python_check import IN_DEFAULT_PRECISION, ON_PROCESSOR, SERVE
from edgekit.devices.channel import Channel
from edgekit.devices.own_check import with_own_check
from edgekit.devices.qemu import EmulatedSession, QemuDevice, x86_emulator
from edgekit.devices.service_session import ServiceSession, require_python_check
from edgekit.errors import InputError
from edgekit.instruction_sets import ARM, FLAGS, NAMES, WITH_BF16
from edgekit.registry import find_profile
from edgekit.target import Profile, Target

SCHEME = "isa"
EMULATED = {"avx2": "Haswell-noTSX"}
"""QEMU's name of a processor that has an instruction set and none beyond it. QEMU emulates neither AVX-512 nor AMX."""
INSTALLING = "`make qemu` in EdgeKit's repository installs QEMU"


class CannotExecuteError(InputError):
    """Neither this processor nor an emulator executes a bundle with these instructions."""


class NoProcessorError(CannotExecuteError):
    """The bundle is for a device whose runtime no processor of this system executes, whatever its instructions."""


class InstructionSetDevice(Device):
    """Runs the bundle's check in a process whose runtime uses no instructions beyond a set.

    If the set is not the processor's own, the runtime is restricted to it by its own switch, or an emulator executes
    the process.

    Args:
        name: One of :data:`NAMES`.
    """

    contract_version = 1
    url_form = f"{SCHEME}:{'|'.join(NAMES)}"

    def __init__(self, name: str) -> None:
        self._name = name

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Returns the device.

        Raises:
            InputError: The URL names no known instruction set.
        """
        return cls(known_set(url.removeprefix(f"{SCHEME}:"), url))

    def open(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Starts the bundle's check in a separate process.

        Raises:
            CannotExecuteError: Nothing here executes the bundle's runtime with these instructions alone.
            RequirementError: The check cannot run.
        """
        return self._open(bundle, (*SERVE, ON_PROCESSOR))

    def open_in_default_precision(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Starts the bundle's check in the precision that the runtime chooses by default with these instructions."""
        return self._open(bundle, (*SERVE, ON_PROCESSOR, IN_DEFAULT_PRECISION))

    @contextmanager
    def _open(self, bundle: Bundle, arguments: Sequence[str]) -> Iterator[Session]:
        url = f"{SCHEME}:{self._name}"
        target, profile = find_profile(bundle.profile_name)
        environment = held_here(target, profile, self._name)
        emulator: Path | None = None
        if environment is None:
            why = cannot_execute(target, profile, self._name)
            if why is not None:
                raise why
            if self._name == ARM:
                device = QemuDevice()
                device.timeout = self.timeout
                default = IN_DEFAULT_PRECISION in arguments
                with device.open_in_default_precision(bundle) if default else device.open(bundle) as session:
                    yield session
                return
            emulator = x86_emulator()
        command = [sys.executable, *arguments]
        if emulator is not None:
            command = [str(emulator), "-cpu", EMULATED[self._name], *command]
        with with_own_check(bundle) as ours:
            require_python_check(ours, url)
            with Channel(command, self.timeout, folder=ours.path, environment=dict(environment or {})) as channel:
                if emulator is None:
                    held_below_bf16 = bool(environment) and self._name not in WITH_BF16
                    yield InstructionSetSession(channel, bundle, url, default_counts=not held_below_bf16)
                else:
                    yield EmulatedSession(channel, bundle, url, f"{EMULATED[self._name]} in QEMU, {url}")


class InstructionSetSession(ServiceSession):
    """A session with a check whose runtime is restricted to an instruction set.

    Args:
        channel: The channel to the check.
        bundle: The bundle that the check belongs to.
        device: How errors name the device.
        default_counts: Whether the runtime, which asks the processor, would choose the same precision on a processor
            with only this instruction set.
    """

    def __init__(self, channel: Channel, bundle: Bundle, device: str, *, default_counts: bool) -> None:
        super().__init__(channel, bundle, device)
        self._default_counts = default_counts

    @property
    def default_precision(self) -> str | None:
        """The precision that the runtime would choose by default; None if the instruction set may lack it."""
        return super().default_precision if self._default_counts else None

    @property
    def executed_by(self) -> str:
        """What the check says of itself, and the instruction set."""
        return f"{super().executed_by}, {self._device}"


def known_set(name: str, subject: str) -> str:
    """An instruction set by its name.

    Args:
        name: The requested name.
        subject: The flag or URL that names it.

    Raises:
        InputError: There is no instruction set of that name.
    """
    if name not in NAMES:
        raise InputError("no such instruction set", subject=subject, expected=", ".join(NAMES), found=name or "nothing")
    return name


def known_sets(text: str) -> tuple[str, ...]:
    """The instruction sets of ``--isa``, each once, in the order of :data:`NAMES`.

    Raises:
        InputError: There is no instruction set of a name.
    """
    asked = {known_set(name.strip(), f"--isa {text}") for name in text.split(",")}
    return tuple(name for name in NAMES if name in asked)


def require_executable(names: Sequence[str] | None, target: Target, profile: Profile) -> None:
    """Checks before the long work that at least one of the requested instruction sets can be executed.

    Raises:
        CannotExecuteError: None of the requested sets can.
    """
    reasons = [cannot_execute(target, profile, name) for name in names or ()]
    if reasons and all(reasons):
        raise next(filter(None, reasons))


def held_here(target: Target, profile: Profile, name: str) -> Mapping[str, str] | None:
    """The environment in which this processor executes a target's runtime with an instruction set and none beyond it.

    Returns:
        Environment variables; empty if the set is this processor's own, which needs no restriction. None if this
        processor cannot execute the runtime with the set alone.
    """
    if not profile.runs_on_processors:
        return None
    if name == instruction_sets.own_set():
        return {}
    if name == ARM or not instruction_sets.processor_flags().issuperset(FLAGS[name]):
        return None
    return target.held_to(name)


def cannot_execute(target: Target, profile: Profile, name: str) -> CannotExecuteError | None:
    """Why nothing here executes a target's runtime with an instruction set; None if something does."""
    url = f"{SCHEME}:{name}"
    if not profile.runs_on_processors:
        what = f"no processor of this system executes what is built for {profile.name}, with any instructions"
        return NoProcessorError(what, subject=url, hint="leave --isa out")
    if held_here(target, profile, name) is not None:
        return None
    if name == ARM:
        ready = QemuDevice.is_installed()
        what = "this processor is not an ARM processor, and no emulator is installed"
        return None if ready else CannotExecuteError(what, subject=url, hint=INSTALLING)
    if name in EMULATED and x86_emulator() is not None:
        return None
    missing = [flag for flag in FLAGS[name] if flag not in instruction_sets.processor_flags()]
    if missing:
        what, found = "this processor does not have the instructions", f"no {', '.join(missing)}"
    else:
        what, found = "its runtime has no switch that holds it to an instruction set", target.name
    hint = INSTALLING if name in EMULATED else f"QEMU emulates {', '.join((*EMULATED, ARM))} alone"
    return CannotExecuteError(what, subject=url, found=found, hint=hint)
