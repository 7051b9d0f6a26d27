"""Runs the built model in a second runtime, and compares it with the original and the target's own runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.comparison.numbers.metrics import Comparison, OutputAccuracy, json_number
from edgekit.errors import RequirementError
from edgekit.execution.recurrence import restart
from edgekit.target import Runner
from edgekit.witness import Parting, Witness

NEAR_DB = {"float32": 60.0, "float16": 40.0}
"""The SQNR in dB of two runtimes that only round differently.

Below this number, the operation from which they differ is searched for.
"""


@dataclass(frozen=True)
class WitnessReport:
    """The outputs of a second runtime (a witness), compared with the original and the target's own runtime."""

    executed_by: str
    original: tuple[OutputAccuracy, ...]
    """The accuracy against the original's outputs."""
    runtime: tuple[OutputAccuracy, ...]
    """The accuracy against the outputs of the target's runtime."""
    near_db: float
    parting: Parting | None
    """The operation from which the runtimes differ; None if they are close, or for a sequence of steps."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        parting = self.parting
        return {
            "executed_by": self.executed_by,
            "against_original": [output.as_record() for output in self.original],
            "against_runtime": [output.as_record() for output in self.runtime],
            "near_db": self.near_db,
            "parting": None if parting is None else _parting_record(parting),
        }


def compare_witness(
    main: Path,
    runner: Runner,
    witness: Witness,
    samples: Sequence[tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]],
    *,
    precision: str,
    is_sequence: bool,
) -> WitnessReport:
    """Executes samples in the target's runtime and in the second one.

    Args:
        main: The file that the target built.
        runner: The runner that executes the file as its target does.
        witness: The second runtime.
        samples: Inputs, and the original's outputs for them, all of which are compared.
        precision: The precision of the build: ``float32`` or ``float16``.
        is_sequence: Whether the samples are the steps of one sequence, which a model with states runs.

    Raises:
        edgekit.errors.EdgeKitError: The witness cannot execute the model.
    """
    second = witness.load(main)
    names = tuple(samples[0][1])
    original, runtime = Comparison(names), Comparison(names)
    restart(runner)
    restart(second)
    for feeds, outputs in samples:
        ours, theirs = runner.run(feeds), second.run(feeds)
        original.add(outputs, theirs)
        runtime.add(ours, theirs)
    near = NEAR_DB[precision]
    found = runtime.results()
    parting = None
    if not is_sequence and not all(_is_near(output, near) for output in found):
        parting = witness.parting(main, samples[0][0])
    return WitnessReport(second.executed_by, original.results(), found, near, parting)


def refuted(report: WitnessReport, subject: object, flaws: Sequence[str]) -> RequirementError:
    """Returns the error for a witness with other outputs than the original.

    Args:
        report: What the witness computed.
        subject: The model or the bundle.
        flaws: The outputs that miss their floors.
    """
    where = "" if report.parting is None else f"; the two runtimes part at {report.parting}"
    return RequirementError(
        f"the witness does not compute the original's outputs, executed by {report.executed_by}",
        subject=subject,
        expected="the original model's outputs",
        found="; ".join(flaws) + where,
    )


def _parting_record(parting: Parting) -> dict[str, Any]:
    decibels = None if parting.sqnr_db is None else json_number(parting.sqnr_db)
    return {"operation": parting.operation, "op_type": parting.op_type, "sqnr_db": decibels}


def _is_near(output: OutputAccuracy, near_db: float) -> bool:
    return output.mismatch == 0 if output.sqnr_db is None else output.sqnr_db >= near_db
