"""A pretended device, which executes the bundle's ONNX file in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

import numpy as np

from edgekit.bundle import Bundle
from edgekit.device import Device, Session, Timing
from edgekit.errors import InputError
from edgekit.model import Arrays
from edgekit_toy.target import ToyRunner


class ToyDevice(Device):
    """The device of the URL ``toy:desk``."""

    contract_version = 1
    url_form = "toy:desk"

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Returns the only device.

        Raises:
            InputError: The URL names another device.
        """
        if url != cls.url_form:
            raise InputError("there is one toy only", subject="--device", expected=cls.url_form, found=url)
        return cls()

    @contextmanager
    def open(self, bundle: Bundle) -> Iterator[Session]:
        """Opens the bundle's model, ready to run."""
        start = time.perf_counter()
        runner = ToyRunner(bundle.main)
        yield ToySession(runner, (time.perf_counter() - start) * 1e3)


class ToySession(Session):
    """A model that is loaded on the device.

    Args:
        runner: Executes the model.
        load_ms: How long loading the model took, in milliseconds.
    """

    def __init__(self, runner: ToyRunner, load_ms: float) -> None:
        self._runner = runner
        self._load_ms = load_ms

    @property
    def executed_by(self) -> str:
        """What executes, and where."""
        return f"{self._runner.executed_by}, on the toy"

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name."""
        return self._runner.run(feeds)

    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        """The latency of one sample, by this process's clock."""
        times = []
        for _ in range(warm_up + runs):
            start = time.perf_counter()
            self._runner.run(sample)
            times.append((time.perf_counter() - start) * 1e3)
        return Timing(tuple(times[warm_up:]), self._load_ms, None, {"threads": "1"})
