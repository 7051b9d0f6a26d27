"""Executes what was built with each instruction set that its devices have, and compares it with the original."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from edgekit.comparison.accuracy import Accuracy
from edgekit.data.first_samples import FirstSamples
from edgekit.data.samples import Samples
from edgekit.devices.instruction_set import SCHEME, cannot_execute, held_here
from edgekit.devices.opening import open_device
from edgekit.devices.own_check import draft_bundle
from edgekit.errors import RequirementError
from edgekit.graph.integer_products import multiplies_integers
from edgekit.instruction_sets import NAMES, own_set
from edgekit.model import Model
from edgekit.stages import Stage
from edgekit.stages.build import extend
from edgekit.stages.held_sets import HeldSets
from edgekit.stages.verify import Verified, Verify
from edgekit.target import BuildOptions, Profile, Target

EMULATED_SAMPLES = 8
"""How many samples an emulator executes at most: a run takes a hundred times as long there."""


class VerifyInstructionSets(Stage[Verified]):
    """Compares a model that multiplies integers with the original once more for each instruction set.

    Args:
        verify: Compares, and refuses what is not accurate enough.
        target: Whose runtime is held to the sets.
        profile: Names the sets of its devices.
        asked: The sets that the user asks for; None: those of the profile that this processor executes itself, where
            the model multiplies integers.
        samples: What to compare on.
        folder: Where it was built.
        of_float: The float model that it was made from.
        options: How that is built.
    """

    name: ClassVar[str] = "instruction sets"

    def __init__(
        self,
        verify: Verify,
        target: Target,
        profile: Profile,
        asked: Sequence[str] | None,
        samples: Samples,
        folder: Path,
        of_float: Model,
        options: BuildOptions,
    ) -> None:
        self._verify = verify
        self._target = target
        self._profile = profile
        self._asked = asked
        self._samples = samples
        self._folder = folder
        self._of_float = of_float
        self._options = options

    @property
    def _wanted(self) -> Sequence[str]:
        return self._profile.instruction_sets if self._asked is None else self._asked

    def counts(self, given: Verified) -> bool:
        """Whether instruction sets make a difference to what was built, or are asked for."""
        return bool(self._wanted) and (self._asked is not None or multiplies_integers(given.model))

    def run(self, given: Verified) -> Verified:
        """The same, with what each instruction set gives in the record.

        Raises:
            RequirementError: It does not run with one of them, or is not accurate enough; with a set that was not asked
                for, where the float model does and is.
        """
        own = own_set()
        verified = {} if own is None else {own: _record(given.accuracy)}
        missing: dict[str, str] = {}
        unable: set[str] = set()
        for name in self._wanted:
            why = cannot_execute(self._target, name)
            if name == own:
                continue
            if why is not None:
                missing[name] = why.message if why.found is None else f"{why.message}: {why.found}"
            elif self._asked is None and held_here(self._target, name) is None:
                missing[name] = f"an emulator alone executes it: --isa {name} asks for it"
            else:
                try:
                    verified[name] = _record(self._accuracy(given, name))
                except RequirementError:
                    reason = None if self._asked is not None else self._excuse(given, name)
                    if reason is None:
                        raise  # who asks is answered, and another form of the model may do
                    missing[name] = reason
                    unable.add(name)
        told = unable if self._asked is None else set(self._asked)
        warnings = [f"not executed with {name}: {why}" for name, why in missing.items() if name in told]
        record = {
            "verified": {name: verified[name] for name in NAMES if name in verified},
            "not_executed": missing,
            "warnings": warnings,
        }
        return extend(Verified, given, record=record)

    def _excuse(self, given: Verified, name: str) -> str | None:
        """Why it is not the fault of what was built that it fails with a set; None where it is.

        Where the original itself computes something else as soon as its numbers are rounded otherwise, what was built
        does, too; and on some sets the float model does not run either.
        """
        for output, limit in given.accuracy.undetermined.items():
            return f"it cannot be judged: output {output!r} is determined to {limit:.0f} dB only on these inputs"
        sets = HeldSets([name], self._of_float, self._target, self._profile, self._options, self._samples)
        return sets.unusable.get(name)

    def _accuracy(self, given: Verified, name: str) -> Accuracy:
        draft = draft_bundle(given.artifact, self._profile, self._folder)
        with open_device(f"{SCHEME}:{name}").open(draft) as session:
            samples = FirstSamples(self._samples, EMULATED_SAMPLES) if session.is_stand_in else self._samples
            subject = f"with {name}"
            accuracy = self._verify.accepted(given, samples, given.reference, session, subject)
            if not session.is_stand_in:
                self._verify.evaluated(given, given.reference, session)
        return accuracy


def _record(accuracy: Accuracy) -> dict[str, Any]:
    record = accuracy.as_record()
    return {key: record[key] for key in ("executed_by", "data", "outputs", "task")}
