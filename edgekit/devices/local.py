"""This machine: the target's own runtime, or what stands in for it here."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import numpy as np

from edgekit.bundle import Bundle
from edgekit.devices.device import Device, Session, Timing
from edgekit.errors import InputError
from edgekit.registry import find_profile
from edgekit.target import Arrays, Inspectable, Runner


class LocalDevice(Device):
    """This machine, in this process."""

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The device, which has nothing to choose.

        Raises:
            InputError: Something follows the scheme.
        """
        if url != "local":
            raise InputError("this machine has nothing to choose", subject="--device", expected="local", found=url)
        return cls()

    @contextmanager
    def open(self, bundle: Bundle) -> Iterator[Session]:
        """The bundle's model in what executes it here.

        Raises:
            InputError: The target that built it is not installed.
        """
        start = time.perf_counter()
        runner = open_runner(bundle)
        yield LocalSession(runner, (time.perf_counter() - start) * 1e3)


class LocalSession(Session):
    """A runner of this process."""

    def __init__(self, runner: Runner, load_ms: float) -> None:
        self._runner = runner
        self._load_ms = load_ms

    @property
    def executed_by(self) -> str:
        """What the runner says."""
        return self._runner.executed_by

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name."""
        return self._runner.run(feeds)

    def intermediates(self, sample: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays | None:
        """Values inside the model by their ONNX names; None where the target's runner cannot show them."""
        return self._runner.intermediates(sample, names) if isinstance(self._runner, Inspectable) else None

    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        """The latency of one sample. Other models share the process, so that its memory says nothing about this one."""
        for _ in range(warm_up):
            self._runner.run(sample)
        return Timing(tuple(self._timed(sample) for _ in range(runs)), self._load_ms, None, {})

    def _timed(self, sample: Mapping[str, np.ndarray]) -> float:
        start = time.perf_counter()
        self._runner.run(sample)
        return (time.perf_counter() - start) * 1e3


def open_runner(bundle: Bundle) -> Runner:
    """What executes the bundle's model in this process.

    Raises:
        InputError: The target that built it is not installed.
    """
    target, profile = find_profile(bundle.profile_name)
    return target.load(bundle.main, profile)
