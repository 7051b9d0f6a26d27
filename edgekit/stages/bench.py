"""Measures how long the built model takes, compared with the original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from edgekit.data.samples import Samples
from edgekit.execution.recurrence import reference_of
from edgekit.model import Model
from edgekit.progress import Step
from edgekit.stages import Stage
from edgekit.stages.build import extend
from edgekit.stages.verify import Verified
from edgekit.target import Profile
from edgekit.timing.latency import MOST_SECONDS, STAND_IN_SECONDS, measure_in_turns, ratio_interval


@dataclass(frozen=True)
class Measured(Verified):
    """What was built and verified, with its latency."""

    latency: dict[str, Any]
    """The manifest's ``latency``."""


class Bench(Stage[Verified]):
    """Runs the built model and the original, optimized by ONNX Runtime, alternately.

    Args:
        original: The float model as it was loaded, its shapes fixed.
        profile: The device that was built for.
        samples: The first sample is executed.
        progress: Called with the number of turns that are done.
    """

    name: ClassVar[str] = "bench"

    def __init__(self, original: Model, profile: Profile, samples: Samples, progress: Step | None = None) -> None:
        self._original = original
        self._profile = profile
        self._samples = samples
        self._progress = progress

    def run(self, given: Verified) -> Measured:
        """The verified build, with its latency."""
        feeds = next(iter(self._samples)).feeds
        reference = reference_of(self._original, fast=True)
        times = measure_in_turns(
            {"built": lambda: given.runner.run(feeds), "reference": lambda: reference.run(feeds)},
            self._progress,
            MOST_SECONDS if self._profile.runs_here else STAND_IN_SECONDS,
        )
        latency = {
            "executed_by": given.runner.executed_by,
            "reference_executed_by": reference.executed_by,
            "of_device": self._profile.runs_here,
            "built": times["built"].as_record(),
            "reference": times["reference"].as_record(),
            "ratio": times["built"].percentile(50) / times["reference"].percentile(50),
        }
        interval = ratio_interval(times["built"], times["reference"])
        if interval is not None:
            latency["ratio_interval"] = list(interval)
        return extend(Measured, given, record={"ratio": latency["ratio"]}, latency=latency)
