"""Has a second runtime execute a bundle: with the original and the target's own runtime there are three parties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgekit.bundle import Bundle
from edgekit.comparison.metrics import Comparison, OutputAccuracy
from edgekit.errors import InputError
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
    """Against the golden outputs."""
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
            "parting": None if parting is None else dict(vars(parting)),
        }


def testify(bundle: Bundle, runner: Runner, witness: Witness) -> Testimony:
    """Executes the golden samples by both.

    Args:
        bundle: The bundle.
        runner: Executes it as its target does.
        witness: The second runtime.

    Raises:
        InputError: The witness executes other kinds of model.
        edgekit.errors.EdgeKitError: The witness cannot execute the model.
    """
    main = bundle.path / bundle.manifest["model"]["main"]
    if not witness.takes(main):
        raise InputError(
            "the witness does not execute such models", subject=f"--witness {witness.name}", found=main.name
        )
    second = witness.load(main)
    names = tuple(output["name"] for output in bundle.manifest["golden"]["outputs"])
    original, runtime = Comparison(names), Comparison(names)
    restart(runner)
    restart(second)
    for feeds, outputs in bundle.golden():
        ours, theirs = runner.run(feeds), second.run(feeds)
        original.add(outputs, theirs)
        runtime.add(ours, theirs)
    near = NEAR_DB[bundle.manifest["model"]["precision"]]
    found = runtime.results()
    parting = None
    if not bundle.states and not all(_is_near(output, near) for output in found):
        feeds, _ = next(iter(bundle.golden()))
        parting = witness.parting(main, feeds)
    return Testimony(second.executed_by, original.results(), found, near, parting)


def _is_near(output: OutputAccuracy, near_db: float) -> bool:
    return output.mismatch == 0 if output.sqnr_db is None else output.sqnr_db >= near_db
