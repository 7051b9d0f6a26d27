"""What a device is: something that executes a bundle's model and returns its outputs and how long it took."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from edgekit.bundle import Bundle
from edgekit.errors import InputError
from edgekit.model import Arrays
from edgekit.progress import Step

CONTRACT_VERSION = 1
"""Increased whenever existing devices have to be changed to work with this file."""
SILENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Timing:
    """How long the device took; times in milliseconds, memory in bytes."""

    milliseconds: tuple[float, ...]
    """One per run, without the warm-up."""
    load_ms: float
    """From the model's file to a session that is ready."""
    peak_memory: int | None
    """Of the process that executed the model; None if the device does not report it."""
    settings: Mapping[str, str]
    """The settings that were fixed: threads, precision, provider, …"""


@dataclass(frozen=True)
class Throughput:
    """How long inferences took that ran at the same time; times in milliseconds, memory in bytes."""

    milliseconds: tuple[float, ...]
    """Of each inference, from its start to its end."""
    elapsed_ms: float
    """From the start of the first inference to the end of the last."""
    load_ms: float
    """From the model's file to a session that is ready."""
    peak_memory: int | None
    """Of the process that executed the model; None if the device does not report it."""
    settings: Mapping[str, str]
    """The settings that were fixed, among them ``streams`` (inferences computed at the same time) and ``requests``
    (inferences in flight)."""


class Session(ABC):
    """A bundle that is on the device and ready to run: a :class:`edgekit.target.Runner` that can be timed.

    Names, shapes and dtypes are the ONNX model's.
    """

    @property
    @abstractmethod
    def executed_by(self) -> str:
        """What really executes, as the device itself says: runtime, version, unit, machine."""

    @abstractmethod
    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name.

        Raises:
            edgekit.errors.RequirementError: The device failed, or went away.
        """

    @abstractmethod
    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        """Measures the latency of one sample; called repeatedly when several sessions are measured in turns.

        Raises:
            edgekit.errors.RequirementError: The device failed, or went away.
        """

    def throughput(self, sample: Mapping[str, np.ndarray], seconds: float) -> Throughput:
        """Runs inferences of one sample or batch at the same time; for sessions of :meth:`Device.open_for_throughput`.

        Raises:
            edgekit.errors.RequirementError: The device failed, or went away.
        """
        raise NotImplementedError(type(self).__name__)

    @property
    def is_stand_in(self) -> bool:
        """Whether something else executes in place of the device, so that its times say nothing about the device."""
        return False

    @property
    def default_precision(self) -> str | None:
        """The precision that the runtime would choose by default; None if the session computes in that precision."""
        return None

    def intermediates(self, sample: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays | None:
        """Values inside the model by their ONNX names; None where the device cannot show them."""
        return None


class Device(ABC):
    """One place that can execute bundles.

    A device is found by entry point (group ``edgekit.devices``): the entry point's name is the scheme of the device's
    URLs, its object a subclass of this class.
    """

    contract_version: ClassVar[int]
    """The value of :data:`CONTRACT_VERSION` for which the device was written, as a literal number."""
    url_form: ClassVar[str]
    """How the device's URLs are written: ``ssh://user@host[:port]``."""
    reached_by_results: ClassVar[bool] = False
    """Whether EdgeKit does not connect to the device, but reads the results that it wrote (``--results FILE``)."""
    timeout: float = SILENCE_SECONDS
    """Seconds without an answer after which the device counts as gone."""
    step: Step | None = None
    """Called with the progress of bringing the bundle to the device, if that takes a while."""

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Returns the device that ``url`` names, without connecting to it. Devices with a URL scheme implement this.

        Raises:
            edgekit.errors.InputError: The URL is not written as :attr:`url_form`.
        """
        raise NotImplementedError(cls.__name__)

    def builds(self, bundle: Bundle) -> Sequence[Bundle]:
        """The builds of a bundle that this device executes; by default the main build.

        Raises:
            edgekit.errors.InputError: No build is for this device.
        """
        return (bundle,)

    @abstractmethod
    def open(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Bring the bundle to the device; leaving the context removes everything that was copied or started.

        Raises:
            edgekit.errors.InputError: The device cannot be reached, or the URL is wrong.
            edgekit.errors.RequirementError: The device cannot run this bundle: it lacks a runtime or a unit.
        """

    def open_in_default_precision(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Bring the bundle to the device, in the precision that the runtime there chooses by default.

        Only devices whose sessions name a :attr:`Session.default_precision` have to implement this.
        """
        raise NotImplementedError(type(self).__name__)

    def open_for_throughput(self, bundle: Bundle, streams: int | None, batch: int) -> AbstractContextManager[Session]:
        """Bring the bundle to the device, for inferences that run at the same time (:meth:`Session.throughput`).

        Args:
            bundle: The bundle.
            streams: How many inferences run at the same time; None for the runtime's own choice.
            batch: Samples in each inference.

        Raises:
            edgekit.errors.InputError: This device runs one inference after another.
        """
        raise InputError(
            "this device runs one inference after another",
            subject="--streams" if batch == 1 else "--batch",
            hint="this machine and those with Python, by ssh, run several at once",
        )
