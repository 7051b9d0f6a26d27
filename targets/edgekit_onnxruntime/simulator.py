"""A chip's simulator on this machine: ``simulator``, which executes bundles for ``android-qnn`` as a Hexagon NPU would.

Qualcomm's wheel onnxruntime-qnn contains the NPU's compiler and a simulator of the NPU for x86-64. The session that the
bundle's check opens with it is compiled for the chip, and computes with the chip's integers and half precision; nodes
that the compiler leaves are computed by ONNX Runtime on the processor, as on the phone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from edgekit.bundle import Bundle
from edgekit.device import Device, Session
from edgekit.device_check.python_check import SERVE
from edgekit.devices.channel import Channel
from edgekit.devices.own_check import with_own_check
from edgekit.devices.service_session import ServiceSession, require_python_check
from edgekit.errors import InputError, RequirementError
from edgekit_onnxruntime import qnn
from edgekit_onnxruntime.devices import devices

SCHEME = qnn.SIMULATOR


class SimulatorDevice(Device):
    """Runs the bundle's own check in a separate process, with the simulator of the chip that the bundle is for."""

    contract_version = 1
    url_form = SCHEME

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The device; there is nothing to choose, as the bundle determines the chip.

        Raises:
            InputError: Something follows the scheme.
        """
        if url != SCHEME:
            raise InputError("the bundle tells the chip", subject="--device", expected=SCHEME, found=url)
        return cls()

    @contextmanager
    def open(self, bundle: Bundle) -> Iterator[Session]:
        """A session with the bundle's check, which has compiled the model when the session begins.

        Raises:
            InputError: The simulator is not installed.
            RequirementError: The bundle's chip has no simulator, or its check cannot run.
        """
        simulated = [name for name, device in devices().items() if device.simulator is not None]
        if bundle.profile_name not in simulated:
            raise RequirementError(
                "there is no simulator of its device",
                subject=bundle.path,
                expected=f"a bundle for {', '.join(simulated)}",
                found=f"one for {bundle.profile_name}",
            )
        if not qnn.is_installed():
            raise InputError(
                "the simulator is not installed",
                subject=f"--device {SCHEME}",
                hint=f"pip install '{qnn.REQUIREMENT}' on x86-64 Linux brings it",
            )
        with with_own_check(bundle) as ours:
            require_python_check(ours, SCHEME)
            with Channel([sys.executable, *SERVE], self.timeout, folder=ours.path) as channel:
                yield SimulatorSession(channel, bundle, SCHEME)


class SimulatorSession(ServiceSession):
    """A check whose provider simulates the chip."""

    @property
    def executed_by(self) -> str:
        """The text of the check, and that a simulator computes."""
        return f"{super().executed_by}, in Qualcomm's simulator of the NPU"

    @property
    def is_stand_in(self) -> bool:
        """A simulator's times say nothing about the chip."""
        return True
