"""Executes what was built in a simulator of its device, if this machine has one, and compares it once more."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.refusal import InaccurateError
from edgekit.comparison.floors import Kind
from edgekit.data.first_samples import FirstSamples
from edgekit.data.samples import Samples
from edgekit.devices.opening import open_device
from edgekit.devices.own_check import draft_bundle
from edgekit.errors import RequirementError
from edgekit.stages import Stage
from edgekit.stages.build import extend
from edgekit.stages.verify import Verified, Verify
from edgekit.target import Profile, Target

MOST_SAMPLES = 8
SECONDS = 20.0
"""Seconds that the samples may take together, judged by a first run: a simulator takes 500 times as long as a
processor."""
LOST_DB = 3.0
"""How far the SQNR may be below that of the verification: twice the error's power, as it is inexact on few samples."""
SUBJECT = "in the simulator of the device"
SILENCE_SECONDS = 60.0
"""How many seconds the simulator may take to compile, or to compute one sample."""


class Simulate(Stage[Verified]):
    """Compares a model with the original once more, on a few samples and with the arithmetic of its device.

    A float model has to reach the floors of half precision, which such devices compute in.

    Args:
        verify: Compares, and refuses what is not accurate enough.
        target: The target, which names the simulator.
        profile: The device.
        samples: What to compare on.
        folder: Where the model was built.
        is_last: Whether no other form is left to try. If so, a model that is not accurate ships, with a warning.
    """

    name: ClassVar[str] = "simulate"

    def __init__(
        self, verify: Verify, target: Target, profile: Profile, samples: Samples, folder: Path, *, is_last: bool
    ) -> None:
        self._verify = verify
        self._url = target.simulator(profile)
        self._profile = profile
        self._samples = samples
        self._folder = folder
        self._is_last = is_last

    @property
    def counts(self) -> bool:
        """Whether there is a simulator here."""
        return self._url is not None

    def run(self, given: Verified) -> Verified:
        """The verified build, with the accuracy in the simulator as its record.

        Raises:
            InaccurateError: The build is not accurate enough in the simulator, and another form may be.
        """
        try:
            record = self._compared(given)
        except InaccurateError as error:
            if not self._is_last:
                raise
            record = {"warnings": [f"{SUBJECT} {error.message}: {error.found}; no other form is left"]}
        except RequirementError as error:  # the simulator does not compile it in time, say: no fault of the model
            record = {"warnings": [f"not executed {SUBJECT}: {' '.join(str(error).split())}"]}
        return extend(Verified, given, record=record)

    def _compared(self, given: Verified) -> dict[str, object]:
        assert self._url is not None
        device = open_device(self._url, SILENCE_SECONDS)
        with device.open(draft_bundle(given.artifact, self._profile, self._folder)) as session:
            start = time.perf_counter()
            session.run(next(iter(self._samples)).feeds)
            count = max(1, min(MOST_SAMPLES, int(SECONDS / (time.perf_counter() - start))))
            samples = FirstSamples(self._samples, count)
            judged = replace(given, kind=Kind.FLOAT16) if given.kind is Kind.FLOAT32 else given
            accuracy = self._verify.accepted(judged, samples, given.reference, session, SUBJECT)
        _require_near(accuracy, given.accuracy, given.artifact.precision)
        return {**accuracy.as_record(), "warnings": []}


def _require_near(simulated: Accuracy, before: Accuracy, precision: str) -> None:
    """Checks the SQNR also of outputs that passed by their decisions: equal decisions on a few samples prove little.

    Raises:
        InaccurateError: An output misses its floor, and the verification before reached a higher SQNR.
    """
    known = {output.name: output.sqnr_db for output in before.outputs}
    for output in simulated.outputs:
        reached = known.get(output.name)
        if output.sqnr_db is None or reached is None:
            continue
        floor = min(simulated.floors.sqnr_db, reached - LOST_DB)
        if output.sqnr_db < floor:
            raise InaccurateError(
                "what was built is not accurate enough",
                precision=precision,
                subject=SUBJECT,
                expected=f"SQNR {floor:.1f} dB, since {before.executed_by} reaches {reached:.1f} dB",
                found=f"output {output.name!r}: SQNR {output.sqnr_db:.1f} dB on {simulated.samples} samples",
            )
