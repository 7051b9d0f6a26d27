"""Executes what was built with each instruction set that its devices have, and compares it with the original."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from edgekit.comparison.acceptance.accuracy import DECISION_DB, Accuracy
from edgekit.data.first_samples import FirstSamples
from edgekit.data.samples import Samples
from edgekit.device import Session
from edgekit.devices.instruction_set import SCHEME, cannot_execute, held_here
from edgekit.devices.opening import open_device
from edgekit.devices.own_check import draft_bundle
from edgekit.errors import RequirementError
from edgekit.graph.integer_products import multiplies_integers
from edgekit.instruction_sets import NAMES, own_set
from edgekit.model import Model
from edgekit.stages import Stage
from edgekit.stages.build import extend
from edgekit.stages.executable_sets import ExecutableSets
from edgekit.stages.verify import Verified, Verify
from edgekit.target import BuildOptions, Profile, Target

NEAR_DB = 20.0
"""The SQNR that counts as near the original: that of the floor for builds in less than float32."""
EMULATED_SAMPLES = 8
"""Most samples that an emulator executes: a run takes a hundred times as long there."""

Opened = TypeVar("Opened")


class VerifyInstructionSets(Stage[Verified]):
    """Compares a model that multiplies integers with the original once more for each instruction set.

    Args:
        verify: Compares, and refuses what is not accurate enough.
        target: The target, whose runtime is restricted to each set.
        profile: The device profile, which names the sets of its devices.
        asked: The sets that the user asks for; None: those of the profile that this processor executes itself, if the
            model multiplies integers.
        samples: What to compare on.
        folder: Where the model was built.
        of_float: The float model that it was made from.
        options: How the float model is built.
        judged_with: The sets that quantized forms of the model were judged with; None if no set was.
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
        judged_with: ExecutableSets | None = None,
    ) -> None:
        self._judged_with = judged_with
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
        """The verified build, with the accuracy with each instruction set in its record.

        Raises:
            RequirementError: The build does not run with a set, or is not accurate enough with it. For a set that was
                not asked for, this counts only if the float model runs with it and is right. Also if an output is lost
                with one set and near the original with another, unless that is accepted.
        """
        own = own_set()
        verified = {} if own is None else {own: given.accuracy}
        missing: dict[str, str] = {}
        unable: set[str] = set()
        executed: list[str] = []
        for name in self._wanted:
            why = cannot_execute(self._target, self._profile, name)
            if name == own:
                continue
            if why is not None:
                missing[name] = why.message if why.found is None else f"{why.message}: {why.found}"
            elif self._asked is None and held_here(self._target, self._profile, name) is None:
                missing[name] = f"only an emulator executes it here: --isa {name} includes it"
            else:
                executed.append(name)
        draft = draft_bundle(given.artifact, self._profile, self._folder)
        with closing(one_ahead(executed, lambda name: open_device(f"{SCHEME}:{name}").open(draft))) as sessions:
            for name, opened in sessions:
                try:
                    verified[name] = self._accuracy(given, name, opened())
                except RequirementError:
                    reason = None if self._asked is not None else self._excuse(given, name)
                    if reason is None:
                        raise  # a set that was asked for, or one with which another form of the model may work
                    missing[name] = reason
                    unable.add(name)
        missing = {name: missing[name] for name in self._wanted if name in missing}
        named = unable if self._asked is None else set(self._asked)
        warnings = [f"not executed with {name}: {why}" for name, why in missing.items() if name in named]
        parted = parted_sets(verified, given.accuracy.judged_otherwise)
        if parted and not self._verify.accepts:
            raise parted[0].refusal(self._of_float.name)
        warnings += [each.text for each in parted]
        record = {
            "verified": {name: _record(verified[name]) for name in NAMES if name in verified},
            "not_executed": missing,
            "warnings": warnings,
        }
        return extend(Verified, given, record=record)

    def _excuse(self, given: Verified, name: str) -> str | None:
        """Why a failure with a set is not the fault of what was built; None if it is.

        If rounding the original's numbers differently changes its own outputs, the outputs of a build change, too; and
        with some sets the float model does not run either.
        """
        for output, limit in given.accuracy.undetermined.items():
            return (
                f"the result cannot be judged: output {output!r} is determined to {limit:.0f} dB only on these inputs"
            )
        if self._judged_with is not None:
            known = self._judged_with.why_unusable(name, self._of_float, self._samples)
            if known is not None:
                return known
        sets = ExecutableSets([name], self._of_float, self._target, self._profile, self._options, self._samples)
        return sets.unusable.get(name)

    def _accuracy(self, given: Verified, name: str, session: Session) -> Accuracy:
        samples = FirstSamples(self._samples, EMULATED_SAMPLES) if session.is_stand_in else self._samples
        accuracy = self._verify.accepted(given, samples, given.reference, session, f"with {name}")
        if not session.is_stand_in:
            self._verify.evaluated(given, given.reference, session)
        return accuracy


def one_ahead(
    names: Sequence[str], opening: Callable[[str], AbstractContextManager[Opened]]
) -> Generator[tuple[str, Callable[[], Opened]]]:
    """Opens something for each name, and the one for the next name already while one is in use.

    What was opened is closed when the next name is asked for, or when this generator is closed.

    Args:
        names: The names.
        opening: Returns what to enter for a name; it is entered in another thread.

    Yields:
        Each name, with a function that returns what was opened for it, or raises the error of opening it.
    """
    with ExitStack() as held, ThreadPoolExecutor(1) as thread:  # the thread ends before what it opened is closed
        stacks = [held.enter_context(ExitStack()) for _ in names]
        started = (thread.submit(_entered, stack, opening, name) for stack, name in zip(stacks, names, strict=True))
        waiting = [*islice(started, 1)]
        for stack, name in zip(stacks, names, strict=True):
            waiting += islice(started, 1)
            yield name, waiting.pop(0).result
            stack.close()


def _entered(stack: ExitStack, opening: Callable[[str], AbstractContextManager[Opened]], name: str) -> Opened:
    return stack.enter_context(opening(name))


@dataclass(frozen=True)
class SetDependentOutput:
    """An output that is lost with one instruction set, and near the original with another."""

    output: str
    wrong: str
    """The set that the output is lost with."""
    wrong_db: float
    right: str
    right_db: float

    @property
    def text(self) -> str:
        """Both figures, in words."""
        return (
            f"with {self.wrong} output {self.output!r} has a SQNR of {self.wrong_db:.1f} dB, "
            f"with {self.right} {self.right_db:.1f} dB"
        )

    def refusal(self, model: str) -> RequirementError:
        """The error that says why what was built does not ship."""
        return RequirementError(
            f"what was built gives other outputs with the instruction set {self.wrong}",
            subject=model,
            expected=f"output {self.output!r} at {DECISION_DB:.0f} dB at least, as with {self.right}: "
            f"SQNR {self.right_db:.1f} dB",
            found=f"SQNR {self.wrong_db:.1f} dB",
            hint="another --quantize scheme may give the same outputs with both; --accept ships this one as it is",
        )


def parted_sets(by_set: Mapping[str, Accuracy], without: Collection[str]) -> list[SetDependentOutput]:
    """Outputs below 3 dB with one set that have 20 dB with another: the kernels of one set compute something else.

    Labels may all be right although scores are a fifth of the original's, so that no floor shows such a fault.

    Args:
        by_set: The accuracy with each set.
        without: Names of outputs that are not judged by their signal.
    """
    found: dict[str, dict[str, float]] = {}
    for name, accuracy in by_set.items():
        for output in accuracy.outputs:
            if output.sqnr_db is not None and output.name not in without:
                found.setdefault(output.name, {})[name] = output.sqnr_db
    parted = []
    for output_name, reached in found.items():
        wrong, right = min(reached, key=reached.__getitem__), max(reached, key=reached.__getitem__)
        if reached[wrong] < DECISION_DB and reached[right] >= NEAR_DB:
            parted.append(SetDependentOutput(output_name, wrong, reached[wrong], right, reached[right]))
    return parted


def _record(accuracy: Accuracy) -> dict[str, Any]:
    record, meaning = accuracy.as_record(), accuracy.meaning
    found = {key: record[key] for key in ("executed_by", "data", "outputs", "task")}
    return found if meaning is None else {**found, "meaning": meaning.counted()}
