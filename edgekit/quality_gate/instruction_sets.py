"""Judges whether a bundle computes its golden outputs with each of several instruction sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgekit.bundle import Bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.devices.instruction_set import SCHEME, CannotExecuteError, NoProcessorError
from edgekit.devices.opening import open_device
from edgekit.errors import RequirementError
from edgekit.progress import Step
from edgekit.quality_gate.verdict import Outcome, Verdict

_LIMIT = "its golden outputs"


def judge_instruction_sets(bundle: Bundle, names: Sequence[str], step: Step | None = None) -> Iterator[Verdict]:
    """A verdict for each instruction set; inconclusive if nothing here executes the bundle with the set.

    If no processor of this system executes the runtime of the bundle's device at all, the set is not compared.
    """
    for name in names:
        budget = f"outputs with {name}"
        try:
            found = verify_bundle(bundle, step=step, device=open_device(f"{SCHEME}:{name}"))
        except CannotExecuteError as error:
            text = error.message if error.found is None else f"{error.message}: {error.found}"
            outcome = Outcome.NOT_COMPARED if isinstance(error, NoProcessorError) else Outcome.INCONCLUSIVE
            yield Verdict(budget, _LIMIT, text, outcome)
        except RequirementError as error:
            yield Verdict(budget, _LIMIT, error.found or error.message, Outcome.BROKEN)
        else:
            yield Verdict(budget, _LIMIT, f"computed by {found.executed_by}", Outcome.KEPT)
