"""A bundle's original model, timed in a process of its own: ``python -m edgekit.devices.original BUNDLE MODEL``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from edgekit.bundle import Bundle, read_bundle
from edgekit.comparison.recurrence import reference_of
from edgekit.comparison.reference import Reference
from edgekit.device_check.check_service import OpenModel, serve
from edgekit.devices.channel import Channel
from edgekit.devices.device import SILENCE_SECONDS, Session
from edgekit.devices.service_session import ServiceSession
from edgekit.verification import original_of


@contextmanager
def open_original(bundle: Bundle, model: Path, timeout: float = SILENCE_SECONDS) -> Iterator[Session]:
    """The original on this machine, executed by ONNX Runtime with its optimizations, on one thread.

    Raises:
        InputError: It is not the bundle's original.
        RequirementError: ONNX Runtime cannot execute it.
    """
    Reference(original_of(bundle, model), fast=True)  # what is wrong with it is told here, in its own words
    command = [sys.executable, "-m", __name__, str(bundle.path), str(model)]
    with Channel(command, timeout) as channel:
        yield OriginalSession(channel, bundle, str(model))


class OriginalSession(ServiceSession):
    """The original in another process."""

    @property
    def executed_by(self) -> str:
        """What the reference says."""
        return str(self._greeting["runtime"])


def main(bundle: str, model: str) -> int:
    """The program in that process."""
    opened = read_bundle(Path(bundle))
    original = original_of(opened, Path(model))

    def open_model() -> OpenModel:
        reference = reference_of(original, fast=True)

        def execute(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            feeds = {feature.name: array for feature, array in zip(opened.inputs, inputs, strict=True)}
            outputs = reference.run(feeds)
            return [outputs[feature.name] for feature in opened.outputs]

        return OpenModel(execute, reference.executed_by, {"threads": "1"})

    return serve(open_model)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
