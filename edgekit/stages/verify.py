"""Executes what was built, and compares it with the original model."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from edgekit.comparison.accuracy import LEAST_DB, MAX_DROP, SELF_MARGIN_DB, Accuracy, Floors, Kind, SizeAccuracy
from edgekit.comparison.bounded import ROUNDING, bounded_outputs
from edgekit.comparison.by_default import lost_by_default
from edgekit.comparison.conditioning import KnownConditioning
from edgekit.comparison.custom_metric import Evaluation, share_lost
from edgekit.comparison.decided_alone import decided_alone
from edgekit.comparison.fed_back import Sequel, compare_fed_back
from edgekit.comparison.metrics import OtherFormError, json_number
from edgekit.comparison.padding import Padding, padding_on
from edgekit.comparison.quantized_outputs import quantized_outputs
from edgekit.comparison.ranked import FEW_LOST, RankedRows
from edgekit.comparison.recorded import ExportCheck, check_export
from edgekit.comparison.side_by_side import Executor, compare, meaning_on, ranked_on, unread_boxes
from edgekit.comparison.told_decisions import decisions_of
from edgekit.comparison.trade_off import loss_text
from edgekit.data.samples import Samples, SeededSamples
from edgekit.data.sized_samples import SizedSamples
from edgekit.errors import RequestError, RequirementError
from edgekit.execution.known_answers import KnownAnswers, Remembering
from edgekit.execution.recurrence import Original
from edgekit.execution.reference import NotRunnableError
from edgekit.features.dimensions import trials
from edgekit.graph.integer_products import multiplies_integers
from edgekit.graph.sizes.shapes import topology_digest
from edgekit.model import Model
from edgekit.processes.crashes import guarded
from edgekit.progress import Step
from edgekit.stages import Stage
from edgekit.stages.build import Built, extend
from edgekit.target import Profile, Runner, Target

SAMPLES_A_SIZE = 2
"""How many samples are compared at each size of the open dimensions."""


@dataclass(frozen=True)
class Verified(Built):
    """What was built, with the evidence that it computes what the original computes."""

    accuracy: Accuracy
    runner: Runner
    """What executed it."""
    reference: Original | Remembering
    """What executed the original."""


class Verify(Stage[Built]):
    """Compares the built artifact with the original on all samples, and refuses one that is not accurate enough.

    Args:
        original: The float model as it was loaded, its shapes fixed.
        target: Who executes what it built.
        profile: The device that it was built for.
        samples: What to compare on.
        max_drop: The accuracy that may be lost, as a fraction; None for the default.
        progress: Told of the samples that are done.
        calibrated_on_same: Whether the samples are those that a quantizer was calibrated on.
        evaluation: The project's own measure of quality, of which ``max_drop`` may be lost as well.
        floor_db: The SQNR that outputs have to reach over all samples; None for the default.
        accept: Whether outputs that miss their floors are taken, unless they are broken
            (:meth:`edgekit.comparison.accuracy.Accuracy.is_broken`).
        sizes_of_samples: Whether open dimensions have the sizes of the samples, and nobody asked for others. Then a
            combination of sizes at which the original does not run is a warning.
        conditioning: What is known of the original from other verifications.
        answers: What it answered in these.
    """

    name: ClassVar[str] = "verify"

    def __init__(
        self,
        original: Model,
        target: Target,
        profile: Profile,
        samples: Samples,
        max_drop: float | None = None,
        progress: Step | None = None,
        *,
        calibrated_on_same: bool = False,
        evaluation: Evaluation | None = None,
        floor_db: float | None = None,
        accept: bool = False,
        sizes_of_samples: bool = False,
        conditioning: KnownConditioning | None = None,
        answers: KnownAnswers | None = None,
    ) -> None:
        self._original = original
        self._conditioning = KnownConditioning() if conditioning is None else conditioning
        self._answers = KnownAnswers() if answers is None else answers
        self._target = target
        self._profile = profile
        self._samples = samples
        self._max_drop = max_drop
        self._progress = progress
        self._calibrated_on_same = calibrated_on_same
        self._evaluation = evaluation
        self._floor_db = floor_db
        self._accept = accept
        self._sizes_of_samples = sizes_of_samples
        self._padding: tuple[Padding | None] | None = None

    def run(self, given: Built) -> Verified:
        """The same, with its accuracy.

        Raises:
            RequirementError: It is not accurate enough.
        """
        tried = f"{self._profile.name}, {given.artifact.precision}: {topology_digest(given.model)}"
        with guarded(tried):
            runner = self._target.load(given.artifact.main, self._profile)
        reference = self._answers.reference_of(self._original)
        export: ExportCheck | None = None
        try:
            export = check_export(self._original, reference, self._samples)
            with guarded(tried):
                accuracy = self.accepted(given, self._samples, reference, runner, self._original.name)
        except InaccurateError as error:
            blame_target(error, export)
            raise
        except NotRunnableError as error:
            if not self._seeded:
                raise
            raise RequestError(
                f"random inputs do not run through the original model: {error.cause}",
                subject=self._original.name,
                hint="give real samples with --data",
            ) from error
        sequel = self._fed_back(given, accuracy, reference, runner)
        if sequel is not None:
            accuracy = replace(accuracy, accepted=(*accuracy.accepted, *sequel.flaws))
        sizes, untried = self._at_sizes(given, reference, runner)
        accuracy = replace(accuracy, sizes=sizes)
        warnings = untried + [
            f"output {name!r} is determined to {limit:.0f} dB only on these inputs: so far do executions of the "
            "original agree whose inputs and weights differ by half a unit in the last place"
            for name, limit in accuracy.self_agreement_db.items()
        ]
        warnings += [
            f"output {name!r} is determined but for {loss_text(share)} of its elements on these inputs: so many differ "
            "between executions of the original whose inputs and weights differ by half a unit in the last place"
            for name, share in accuracy.self_mismatch.items()
        ]
        warnings += [
            f"output {name!r} is too small on these inputs to compare: it differs by at most {ROUNDING:.1g} of the 1 "
            "that it may be; give samples in which there is something to find"
            for name in accuracy.vanished
        ]
        warnings += [
            f"output {output.name!r}: column {column.column} of {column.columns} keeps {max(column.explained, 0):.1%} "
            "of what tells its samples apart; the SQNR is that of the columns with larger numbers"
            for output in accuracy.outputs
            if (column := output.worst_column) is not None and column.is_lost
        ]
        warnings += [
            f"output {output.name!r}: {output.worst_class}: if these are scores of classes, that class is lost; names "
            "of the classes (--labels FILE) have them judged so"
            for output in accuracy.outputs
            if accuracy.task is None and accuracy.floors.agreement is not None
            if output.worst_class is not None and output.worst_class.is_lost and not output.worst_class.told
        ]
        warnings += decided_alone(accuracy, decisions_of(self._original))
        warnings += _told_nothing(reference, self._samples) if self._seeded and not self._original.states else []
        ranked = accuracy.ranked
        if ranked is not None and ranked.lost_rows > FEW_LOST and given.kind is Kind.FLOAT32:
            warnings.append(
                f"up to {ranked.lost_rows:.1%} of a sample's rows are others than the original's, whose executions "
                f"lose {ranked.own_lost_rows:.1%}: scores of candidates are equal at the cut-off"
            )
        if self._samples.has_labels and accuracy.task is None and self._evaluation is None:
            warnings.append("the samples have labels, but no output of the model tells a class: they were not used")
        warnings += [doubt for doubt in (accuracy.label_exchange, accuracy.label_doubt) if doubt is not None]
        if not self._seeded:
            warnings += unread_boxes(self._samples, reference, self._original, accuracy.meaning)
        by_signal = tuple(out.name for out in accuracy.outputs if out.name not in accuracy.judged_otherwise)
        warnings += lost_by_default(self._samples, reference, runner, given.artifact.settings, by_signal)
        warnings += accuracy.others_behind_labels
        warnings += [f"accepted although it misses its floor (--accept): {flaw}" for flaw in accuracy.accepted]
        if self._calibrated_on_same:
            warnings.append(
                "the accuracy was measured on the samples that the model was calibrated on; "
                "--verify-data DIR measures it on others"
            )
        warnings += [] if sequel is None else sequel.warnings(accuracy.floors)
        worst = accuracy.worst_db
        record = {
            "kind": given.kind,
            "executed_by": accuracy.executed_by,
            "worst_db": None if worst is None else json_number(worst),
            "evaluation": self.evaluated(given, reference, runner),
            "recorded_outputs": None if export is None else export.as_record(),
            "fed_back": None if sequel is None else sequel.as_record(),
            "warnings": warnings,
        }
        return extend(Verified, given, record=record, accuracy=accuracy, runner=runner, reference=reference)

    @property
    def accepts(self) -> bool:
        """Whether outputs that miss their floors are taken, unless they are broken."""
        return self._accept

    @property
    def _seeded(self) -> bool:
        return isinstance(self._samples, SeededSamples)

    def accepted(self, given: Built, samples: Samples, reference: Executor, runner: Runner, subject: str) -> Accuracy:
        """The accuracy on samples, if it is enough.

        Args:
            given: What was built.
            samples: What to compare on.
            reference: Executes the original.
            runner: Executes what was built.
            subject: What errors call it.

        Raises:
            InaccurateError: It is not.
        """
        names = tuple(output.name for output in self._original.returned_outputs)
        meaning = None if self._seeded else meaning_on(samples, reference, self._original)
        padding = self._padding_on(reference)
        try:
            ranked = ranked_on(samples, reference, self._original, given.kind)
            outputs, task = compare(
                samples,
                reference,
                runner,
                names,
                self._progress,
                meaning,
                ranked,
                decisions_of(self._original),
                quantized_outputs(self._original),
                self._original.class_choice,
                padding,
            )
        except OtherFormError as error:  # how long an output is may depend on what the model computes
            raise InaccurateError(
                error.message,
                precision=given.artifact.precision,
                worst_samples=(error.sample,),
                subject=error.subject,
                expected=error.expected,
                found=f"{error.found}, on sample {error.sample + 1}",
            ) from error
        measured = Accuracy(
            executed_by=runner.executed_by,
            reference=reference.executed_by,
            seeded=self._seeded,
            samples=len(samples),
            floors=Floors.of(
                given.kind,
                labelled=task is not None and not task.is_chance(len(samples)),
                max_drop=self._max_drop,
                floor_db=self._floor_db,
            ),
            outputs=outputs,
            task=task,
            meaning=None if meaning is None else meaning.result(),
            ranked=None if ranked is None else ranked.result(),
            padding=padding,
        )
        accuracy = with_self_agreement(measured, self._original, samples, ranked, self._progress, self._conditioning)
        if self._accept and not accuracy.is_broken():
            return replace(accuracy, accepted=tuple(accuracy.shortfalls()))
        require_accuracy(accuracy, given.kind, given.artifact.precision, subject)
        return accuracy

    def _padding_on(self, reference: Executor) -> Padding | None:
        """The padding in the samples, looked for once."""
        if self._padding is None:
            self._padding = (None if self._seeded else padding_on(self._samples, reference, self._original),)
        return self._padding[0]

    def _fed_back(self, given: Built, accuracy: Accuracy, reference: Executor, runner: Runner) -> Sequel | None:
        """How near it stays with its own states, if that is enough; None without samples of a sequence.

        Raises:
            InaccurateError: It departs too far, and that is not accepted.
        """
        if self._seeded:
            return None
        decisions = decisions_of(self._original)
        sequel = compare_fed_back(
            self._samples, reference, runner, self._original, decisions, accuracy.floors, self._progress
        )
        if not self._accept:
            require_sequel(sequel, accuracy, given.kind, given.artifact.precision, self._original.name)
        return sequel

    def evaluated(self, given: Built, reference: Executor, runner: Runner) -> dict[str, Any] | None:
        """What the project's evaluation function finds, if it is enough; None without one.

        Raises:
            InaccurateError: It is not.
        """
        evaluation = self._evaluation
        if evaluation is None:
            return None
        original = evaluation.of_original(reference.run, self._samples)
        built = evaluation(runner.run, self._samples)
        drop, allowed = share_lost(original, built), MAX_DROP if self._max_drop is None else self._max_drop
        if drop > allowed:
            raise InaccurateError(
                "the built model is not accurate enough",
                precision=given.artifact.precision,
                subject=self._original.name,
                expected=f"at most {allowed:.2%} of {evaluation.name} lost",
                found=f"{built:.5g} instead of {original:.5g}, which is {drop:.2%} less",
                hint="allow more with --max-drop, or quantize less",
            )
        return {"metric": evaluation.name, "reference": original, "built": built, "drop": drop}

    def _at_sizes(
        self, given: Built, reference: Executor, runner: Runner
    ) -> tuple[tuple[SizeAccuracy, ...], list[str]]:
        """The accuracy at each size that is tried of the open dimensions, if it is enough; what could not be tried."""
        found, untried = [], []
        for sizes in trials(given.model.open_dims) if given.model.open_dims else ():
            samples = SizedSamples(self._samples, given.model.fed_inputs, sizes, SAMPLES_A_SIZE)
            place = ", ".join(f"{name}={size}" for name, size in sizes.items())
            try:
                accuracy = self.accepted(given, samples, reference, runner, f"{self._original.name} at {place}")
            except NotRunnableError as error:
                if self._sizes_of_samples:
                    untried.append(f"not tried at {place}, where the original does not run: {error.cause}")
                    continue
                raise RequestError(
                    f"does not run at {place}: {error.cause}",
                    subject=self._original.name if error.node is None else f"node {error.node!r}",
                    hint="ask with --dim for sizes that the model takes, as a list: --dim NAME=SIZE,SIZE,…",
                ) from error
            found.append(SizeAccuracy(sizes, len(samples), accuracy.outputs, accuracy.vanished))
        return tuple(found), untried


class InaccurateError(RequirementError):
    """What was built is not accurate enough."""

    def __init__(self, message: str, *, precision: str, worst_samples: Collection[int] = (), **details: Any) -> None:
        super().__init__(message, **details)
        self.precision = precision
        """The precision that it was built in."""
        self.worst_samples = worst_samples
        """On which samples outputs are farthest from the original's, counted from 0."""


def blame_target(error: RequirementError, export: ExportCheck | None) -> None:
    """Says in an error that the target is to blame, where the export computes what was recorded.

    Args:
        error: Why what was built is refused.
        export: How near the export is to the recorded outputs; None where nothing was recorded.
    """
    if export is not None:
        right = f"the export computes the recorded outputs {export.summary}: the fault is in the target, not there"
        error.hint = right if error.hint is None else f"{right}; {error.hint}"


def with_self_agreement(
    accuracy: Accuracy,
    original: Model,
    samples: Samples,
    ranked: RankedRows | None = None,
    step: Step | None = None,
    known: KnownConditioning | None = None,
) -> Accuracy:
    """The same, with how far the original agrees with itself where an output misses its floor.

    Args:
        accuracy: As measured.
        original: The float model.
        samples: What it was measured on.
        ranked: How rows by falling score were put in order.
        step: Told how far it is.
        known: What was found of the original before.
    """
    silent = {output.name for output in accuracy.outputs if output.sqnr_db == -math.inf}
    accuracy = replace(accuracy, vanished=_vanished(accuracy, silent, original))
    if not accuracy.misses_a_signal():
        return accuracy
    limits = (known or KnownConditioning()).of(original, samples, ranked, step, accuracy.padding)
    reduced = accuracy.floors.agreement is not None
    agreed = limits.pooled_db if reduced else limits.sqnr_db
    limited = {name: limit for name, limit in agreed.items() if limit - SELF_MARGIN_DB < accuracy.floors.sqnr_db}
    if accuracy.ranked is not None:
        own = replace(accuracy.ranked, own_lost_rows=limits.lost_rows, own_lost_scores=limits.lost_scores)
        accuracy = replace(accuracy, ranked=own)
    if reduced:
        return replace(accuracy, self_agreement_db=limited)
    undetermined = {name for name, limit in limited.items() if limit - SELF_MARGIN_DB < LEAST_DB}
    unequal = {
        output.name: share
        for output in accuracy.outputs
        if output.sqnr_db is None and output.mismatch and (share := limits.mismatch.get(output.name, 0.0))
    }
    rounded = {*limited, *(output.name for output in accuracy.outputs if output.picture_db is not None)}
    pooled = {name: db for name, db in limits.pooled_db.items() if name in rounded and multiplies_integers(original)}
    return replace(
        accuracy,
        self_agreement_db=limited,
        pooled_agreement_db=pooled,
        self_mismatch=unequal,
        vanished=_vanished(accuracy, silent | undetermined, original),
    )


def _vanished(accuracy: Accuracy, names: Collection[str], original: Model) -> tuple[str, ...]:
    """Those of some outputs that lie between 0 and 1 and differ by rounding of 1 alone."""
    bounded = bounded_outputs(original) if names else frozenset()
    return tuple(
        output.name
        for output in accuracy.outputs
        if output.name in names
        and output.name in bounded
        and output.max_abs_error is not None
        and output.max_abs_error <= ROUNDING
    )


def require_accuracy(accuracy: Accuracy, kind: Kind, precision: str, subject: object) -> None:
    """Refuses what is not accurate enough.

    Args:
        accuracy: As measured.
        kind: What was built.
        precision: The precision that it was built in.
        subject: What to call it in the error.

    Raises:
        InaccurateError: Floors are missed; all of them are named.
    """
    shortfalls = accuracy.shortfalls()
    if shortfalls:
        raise InaccurateError(
            f"what was built as {kind} is not accurate enough, executed by {accuracy.executed_by}",
            precision=precision,
            worst_samples=sorted({at for output in accuracy.outputs if (at := output.worst_sample) is not None}),
            subject=subject,
            expected=f"the original model's outputs, by {accuracy.reference}",
            found="; ".join(shortfalls),
            hint=_hint(accuracy, kind),
        )


def require_sequel(sequel: Sequel | None, accuracy: Accuracy, kind: Kind, precision: str, subject: object) -> None:
    """Refuses what departs from the original where both go on with their own states.

    Args:
        sequel: How near it stays; None where there is no sequence.
        accuracy: How near single steps are.
        kind: What was built.
        precision: The precision that it was built in.
        subject: What to call it in the error.

    Raises:
        InaccurateError: It departs too far.
    """
    if sequel is not None and sequel.flaws:
        raise InaccurateError(
            f"what was built as {kind} is not accurate enough, executed by {accuracy.executed_by}",
            precision=precision,
            subject=subject,
            expected=f"the original model's outputs, by {accuracy.reference}, fed its own states",
            found="; ".join(sequel.flaws),
            hint=_hint(accuracy, kind),
        )


def _told_nothing(reference: Executor, samples: Samples) -> list[str]:
    """Warnings of outputs that random inputs tell nothing of: all gave the same, or zeros and ones alone."""
    seen: dict[str, list[np.ndarray]] = {}
    for sample in samples:
        for name, array in reference.run(sample.feeds).items():
            if array.dtype.kind == "f" and array.size:
                seen.setdefault(name, []).append(array)
    warnings = []
    for name, arrays in seen.items():
        first = arrays[0]
        same = len(arrays) > 1 and all(np.array_equal(first, other, equal_nan=True) for other in arrays)
        saturated = all(np.isin(array, (0, 1)).all() for array in arrays)
        if same or saturated:
            what = "the same for all of the" if same else "zeros and ones alone for the"
            warnings.append(
                f"output {name!r} is {what} random inputs, so that they prove nothing of it: "
                "give real samples with --data"
            )
    return warnings


def _hint(accuracy: Accuracy, kind: Kind) -> str:
    if accuracy.label_doubt is not None:
        return accuracy.label_doubt
    if accuracy.seeded:
        undetermined = [name for name in accuracy.self_agreement_db if f"{name!r}" in "; ".join(accuracy.shortfalls())]
        if undetermined:
            return (
                f"random inputs determine {', '.join(map(repr, undetermined))} badly, and it is farther off than that "
                "explains: give real samples with --data, and see which layer differs with `edgekit verify --layers`"
            )
        return "random inputs may be unlike anything that the model knows: give real samples with --data"
    if kind is Kind.QUANTIZED:
        return (
            "give more samples, allow more with --max-drop or --floor DB, take it with --accept, or keep it in float "
            "with --quantize none"
        )
    if kind is Kind.FLOAT16:
        return "build it with --precision float32, or ask for less with --floor DB"
    return "this points to a fault in the conversion: `edgekit extract` helps to find the node"
