"""Has a second runtime, the witness, execute what was built, and refuses the build if the results are too far off."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import ClassVar

from edgekit.data.samples import Samples
from edgekit.diagnosis.witness_report import compare_witness, refuted
from edgekit.execution.recurrence import GOLDEN_STEPS, restart
from edgekit.stages import Stage
from edgekit.stages.build import extend
from edgekit.stages.verify import Verified
from edgekit.witness import Witness

SAMPLES = 3
"""How many samples a witness executes; with states, it executes the `GOLDEN_STEPS` of the golden sequence instead."""


class RunWitness(Stage[Verified]):
    """Compares a witness with the original and with the target's own runtime.

    Args:
        witness: The second runtime.
        samples: The first samples are executed.
    """

    name: ClassVar[str] = "witness"

    def __init__(self, witness: Witness, samples: Samples) -> None:
        self._witness = witness
        self._samples = samples

    def run(self, given: Verified) -> Verified:
        """The verified build, with the witness's results as its record.

        Raises:
            RequirementError: The witness's outputs miss the floors that the build holds.
        """
        states = given.artifact.states
        restart(given.reference)
        first = [sample.feeds for sample in islice(self._samples, GOLDEN_STEPS if states else SAMPLES)]
        names = [feature.name for feature in given.artifact.outputs]
        executed = [(feeds, given.reference.run(feeds)) for feeds in first]
        found = compare_witness(
            given.artifact.main,
            given.runner,
            self._witness,
            [(feeds, {name: outputs[name] for name in names}) for feeds, outputs in executed],
            precision=given.artifact.precision,
            is_sequence=bool(states),
        )
        accuracy = replace(given.accuracy, outputs=found.original, task=None)
        flaws = [] if given.accuracy.accepted else accuracy.shortfalls()
        if flaws:
            raise refuted(found, given.model.name, flaws)
        return extend(Verified, given, record={"witness": self._witness.name, **found.as_record()})
