"""What a device is: something that executes a bundle's model and hands back what it computed and how long it took."""

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
"""Raised when a device has to be changed to work with this file."""
SILENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Timing:
    """How long the device took; times in milliseconds, memory in bytes."""

    milliseconds: tuple[float, ...]
    """One a run, warm-up left out."""
    load_ms: float
    """From the model's file to a session that is ready."""
    peak_memory: int | None
    """Of the process that executed; None where the device does not tell."""
    settings: Mapping[str, str]
    """What was pinned: threads, precision, provider, …"""


@dataclass(frozen=True)
class Throughput:
    """What a device got done while inferences ran at the same time."""

    milliseconds: tuple[float, ...]
    """Of each inference, from its start to its end."""
    elapsed_ms: float
    """From the first one's start to the last one's end."""
    load_ms: float
    """From the model's file to a session that is ready."""
    peak_memory: int | None
    """Of the process that executed; None where the device does not tell."""
    settings: Mapping[str, str]
    """What was pinned, ``streams`` and ``requests`` among it: what computes at once, and what is in flight."""


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
        """The latency of one sample; called again and again where several sessions take turns.

        Raises:
            edgekit.errors.RequirementError: The device failed, or went away.
        """

    def throughput(self, sample: Mapping[str, np.ndarray], seconds: float) -> Throughput:
        """Inferences of one sample, or one batch, at the same time; of a session that was opened for that.

        Raises:
            edgekit.errors.RequirementError: The device failed, or went away.
        """
        raise NotImplementedError(type(self).__name__)

    @property
    def is_stand_in(self) -> bool:
        """Whether something executes in the device's stead, so that its times say nothing about the device."""
        return False

    @property
    def default_precision(self) -> str | None:
        """What the runtime would compute in by itself; None where that is what it computes in."""
        return None

    def intermediates(self, sample: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays | None:
        """Values inside the model by their ONNX names; None where the device cannot show them."""
        return None


class Device(ABC):
    """One place that can execute bundles.

    A device is found by entry point (group ``edgekit.devices``): the entry point's name is the scheme of its URLs, its
    object a class with the interface of this one.
    """

    contract_version: ClassVar[int]
    """The version of this contract that it is written for: :data:`CONTRACT_VERSION` as its author found it."""
    url_form: ClassVar[str]
    """How its URLs are written: ``ssh://user@host[:port]``."""
    reached_by_results: ClassVar[bool] = False
    """Whether EdgeKit does not reach it and reads the results that it wrote (``--results FILE``) instead."""
    timeout: float = SILENCE_SECONDS
    """Seconds that it may be silent before it counts as gone."""
    step: Step | None = None
    """Told how far the bundle's way to the device is, where that takes a while."""

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The device that ``url`` names; nothing is started or connected yet. Devices with a scheme have to.

        Raises:
            edgekit.errors.InputError: The URL is not written as :attr:`url_form`.
        """
        raise NotImplementedError(cls.__name__)

    def builds(self, bundle: Bundle) -> Sequence[Bundle]:
        """Those of a bundle's builds that it executes; the main one by default.

        Raises:
            edgekit.errors.InputError: None of them is for it.
        """
        return (bundle,)

    @abstractmethod
    def open(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Bring the bundle to the device; leaving the context removes all that was brought or started.

        Raises:
            edgekit.errors.InputError: The device cannot be reached, or the URL is wrong.
            edgekit.errors.RequirementError: It can, but cannot run this bundle: a runtime is missing there, or a unit.
        """

    def open_in_default_precision(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Bring the bundle to the device, in the precision that the runtime there chooses by itself.

        Only devices whose sessions name a :attr:`Session.default_precision` have to.
        """
        raise NotImplementedError(type(self).__name__)

    def open_for_throughput(self, bundle: Bundle, streams: int | None, batch: int) -> AbstractContextManager[Session]:
        """Bring the bundle to the device, for inferences that run at the same time (:meth:`Session.throughput`).

        Args:
            bundle: The bundle.
            streams: How many run at once; None for the runtime's own choice.
            batch: Of how many samples each is.

        Raises:
            edgekit.errors.InputError: This device runs one after another.
        """
        raise InputError(
            "this device runs one inference after another",
            subject="--streams" if batch == 1 else "--batch",
            hint="this machine and those with Python, by ssh, run several at once",
        )
