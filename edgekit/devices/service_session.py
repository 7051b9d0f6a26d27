"""A session with a bundle's own check that runs with ``--serve``, in another process or on a device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from edgekit.bundle import Bundle
from edgekit.device import Session, Throughput, Timing
from edgekit.device_check.check_service import pack, unpack
from edgekit.device_check.python_check import PROGRAM
from edgekit.devices.channel import Channel, HungUpError, SilentError
from edgekit.errors import EdgeKitError, InputError, RequirementError
from edgekit.model import Arrays

_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^'.]+)")
_KILLED = (-9, 137)
_CONNECTION_LOST = 255
"""The exit code of ``ssh`` when the connection is lost."""


class ModelFailedError(RequirementError):
    """The device was reached, but the model could not be loaded or run there as requested."""


class ServiceSession(Session):
    """The check of a bundle at the other end of a channel; the constructor waits until it has loaded the model.

    Args:
        channel: The channel to the check.
        bundle: The bundle that the check belongs to.
        device: How errors name the device.

    Raises:
        RequirementError: The check cannot run there, or cannot load the model.
    """

    def __init__(self, channel: Channel, bundle: Bundle, device: str) -> None:
        self._channel = channel
        self._bundle = bundle
        self._device = device
        self._timed: Mapping[str, np.ndarray] | None = None
        self._greeting, _ = self._answer()

    @property
    def executed_by(self) -> str:
        """What the check says of itself: runtime, version, unit, threads, machine."""
        return f"{self._greeting['runtime']}, on {self._greeting['machine']}"

    @property
    def default_precision(self) -> str | None:
        """The precision that the runtime would choose by default; None if the check computes in that precision."""
        return self._greeting["default_precision"] or None

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name.

        Raises:
            InputError: The names are not the model's.
            RequirementError: The model fails, or the device went away.
        """
        self._timed = None
        _, payload = self._ask({"op": "run"}, self._packed(feeds))
        return dict(zip((feature.name for feature in self._bundle.outputs), unpack(payload), strict=True))

    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        """Measures the latency of one sample by the device's clock; sends the sample only if it is a new one.

        Raises:
            RequirementError: The model fails, or the device went away.
        """
        payload = b"" if self._timed is sample else self._packed(sample)
        answer, _ = self._ask({"op": "time", "runs": runs, "warm_up": warm_up}, payload)
        self._timed = sample
        return Timing(
            tuple(answer["milliseconds"]), self._greeting["load_ms"], answer["peak_memory"], self._greeting["settings"]
        )

    def throughput(self, sample: Mapping[str, np.ndarray], seconds: float) -> Throughput:
        """Runs inferences at the same time, timed by the device's clock; sends the sample only if it is a new one.

        Raises:
            RequirementError: The model fails, or the device went away.
        """
        payload = b"" if self._timed is sample else self._packed(sample)
        answer, _ = self._ask({"op": "throughput", "seconds": seconds}, payload)
        self._timed = sample
        times, settings = tuple(answer["milliseconds"]), self._greeting["settings"]
        return Throughput(times, answer["elapsed_ms"], self._greeting["load_ms"], answer["peak_memory"], settings)

    def _packed(self, feeds: Mapping[str, np.ndarray]) -> bytes:
        names = [feature.name for feature in self._bundle.inputs]
        if set(feeds) != set(names):
            raise InputError(
                "the inputs' names are not the model's", subject=self._bundle.path, expected=names, found=list(feeds)
            )
        return pack([feeds[name] for name in names])

    def _ask(self, message: Mapping[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        try:
            self._channel.send(message, payload)
        except SilentError:
            raise silent(self._device, self._channel.timeout) from None
        return self._answer()

    def _answer(self) -> tuple[dict[str, Any], bytes]:
        try:
            message, payload = self._channel.receive()
        except HungUpError as end:
            raise self._ended(end) from None
        except SilentError:
            raise silent(self._device, self._channel.timeout) from None
        if "error" in message:
            raise ModelFailedError(
                "the model cannot be run there", subject=self._device, found=" ".join(message["error"].split())
            )
        return message, payload

    def _ended(self, end: HungUpError) -> EdgeKitError:
        missing = _MISSING_MODULE.search(end.stderr)
        if missing is not None:
            return RequirementError(
                f"the Python there has no {missing[1]}",
                subject=self._device,
                expected="NumPy and the runtime that the bundle was made for",
                found=end.last_words,
                hint=f"`python -m pip install {missing[1]}` there, or name another Python that has it",
            )
        if end.code in _KILLED:
            return RequirementError(
                "the bundle's check was killed there", subject=self._device, hint="the memory may not be enough"
            )
        if end.code == _CONNECTION_LOST:
            return RequirementError("the connection was lost", subject=self._device, found=end.last_words)
        return ModelFailedError(
            "the bundle's check ended before it answered", subject=self._device, found=end.last_words
        )


def require_python_check(bundle: Bundle, device: str) -> None:
    """Refuses a bundle that has no check to run on a device with Python.

    Raises:
        RequirementError: The bundle has no such check.
    """
    if not (bundle.path / PROGRAM).is_file():
        raise RequirementError(
            f"a bundle for {bundle.profile_name} has no {PROGRAM} that could run there",
            subject=device,
            hint="the device that the bundle is built for may run it: `edgekit targets` lists the devices",
        )


def silent(device: str, seconds: float) -> EdgeKitError:
    """The error for a device that does not answer."""
    return RequirementError(
        f"the device has been silent for {seconds:g} s",
        subject=device,
        hint="`--device-timeout SECONDS` gives it longer",
    )
