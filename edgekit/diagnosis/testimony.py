"""Has a second runtime execute what was built: three parties, with the original and the target's own runtime."""

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
"""How near two runtimes are that round at other places; below, the operation where they part is looked for."""


@dataclass(frozen=True)
class Testimony:
    """What a witness computes, beside the original and beside the target's own runtime."""

    executed_by: str
    original: tuple[OutputAccuracy, ...]
    """Against the original's outputs."""
    runtime: tuple[OutputAccuracy, ...]
    """Against what the target's runtime computes."""
    near_db: float
    parting: Parting | None
    """The operation where the two runtimes part; None where they are near, or the model has states."""

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


def testify(
    main: Path,
    runner: Runner,
    witness: Witness,
    samples: Sequence[tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]],
    *,
    precision: str,
    is_sequence: bool,
) -> Testimony:
    """Executes samples by both.

    Args:
        main: What the target built.
        runner: Executes it as its target does.
        witness: The second runtime.
        samples: Inputs, and the original's outputs for them; of the latter all are compared.
        precision: What it was built in: ``float32`` or ``float16``.
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
    return Testimony(second.executed_by, original.results(), found, near, parting)


def refuted(testimony: Testimony, subject: object, flaws: Sequence[str]) -> RequirementError:
    """The error where a witness computes something else than the original.

    Args:
        testimony: What it computes.
        subject: The model or the bundle.
        flaws: The outputs that miss their floors.
    """
    where = "" if testimony.parting is None else f"; the two runtimes part at {testimony.parting}"
    return RequirementError(
        f"the witness computes other outputs than the original, executed by {testimony.executed_by}",
        subject=subject,
        expected="the original model's outputs",
        found="; ".join(flaws) + where,
    )


def _parting_record(parting: Parting) -> dict[str, Any]:
    decibels = None if parting.sqnr_db is None else json_number(parting.sqnr_db)
    return {"operation": parting.operation, "op_type": parting.op_type, "sqnr_db": decibels}


def _is_near(output: OutputAccuracy, near_db: float) -> bool:
    return output.mismatch == 0 if output.sqnr_db is None else output.sqnr_db >= near_db
