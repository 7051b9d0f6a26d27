"""Executes what was built, and compares it with the original model."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from edgekit.comparison.acceptance.accuracy import Accuracy, SizeAccuracy
from edgekit.comparison.acceptance.conditioning import KnownConditioning
from edgekit.comparison.acceptance.decided_alone import decided_alone
from edgekit.comparison.acceptance.fed_back import FedBackAccuracy, compare_fed_back
from edgekit.comparison.acceptance.recorded import ExportCheck, check_export
from edgekit.comparison.acceptance.refusal import InaccurateError, blame_target, require_accuracy, require_sequel
from edgekit.comparison.acceptance.remarks import lost_rows, remarks_on, unproven, untested_outputs
from edgekit.comparison.acceptance.self_agreement import with_self_agreement
from edgekit.comparison.by_default import lost_by_default
from edgekit.comparison.custom_metric import Evaluation, share_lost
from edgekit.comparison.decisions.from_graph import decisions_of
from edgekit.comparison.decisions.shared import Decision
from edgekit.comparison.floors import MAX_DROP, Floors, Kind
from edgekit.comparison.numbers.metrics import OtherFormError, json_number
from edgekit.comparison.numbers.quantized_outputs import quantized_outputs
from edgekit.comparison.padding import Padding, padding_on
from edgekit.comparison.side_by_side import Executor, compare, meaning_on, ranked_on, unread_boxes
from edgekit.data.lengths import Lengths
from edgekit.data.samples import Samples, SeededSamples
from edgekit.data.sized_samples import SizedSamples
from edgekit.errors import RequestError
from edgekit.execution.known_answers import CachingOriginal, KnownAnswers
from edgekit.execution.recurrence import Original
from edgekit.execution.reference import NotRunnableError
from edgekit.features.dimensions import is_apart, trials
from edgekit.graph.sizes.shapes import topology_digest
from edgekit.model import Model
from edgekit.processes.crashes import CrashError, guarded
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
    """What executed the build."""
    reference: Original | CachingOriginal
    """What executed the original."""
    lengths: Lengths
    """What lengths and places stay below at other sizes, as far as samples of these sizes needed it."""


class Verify(Stage[Built]):
    """Compares the built artifact with the original on all samples, and refuses one that is not accurate enough.

    Args:
        original: The float model as it was loaded, its shapes fixed.
        target: The target, which executes what it built.
        profile: The device that it was built for.
        samples: What to compare on.
        max_drop: The accuracy that may be lost, as a fraction; None for the default.
        progress: Called with the number of samples that are done.
        calibrated_on_same: Whether the samples are those that a quantizer was calibrated on.
        evaluation: The project's own measure of quality, of which the share ``max_drop`` may be lost, too.
        floor_db: The SQNR that outputs have to reach over all samples; None for the default.
        accept: Whether outputs that miss their floors are accepted, unless they are broken
            (:meth:`edgekit.comparison.acceptance.accuracy.Accuracy.is_broken`).
        sizes_of_samples: Whether open dimensions have the sizes of the samples, and nobody asked for others. If so,
            there is a warning in place of an error for a combination of sizes at which the original does not run, or at
            which lengths or places in samples had to be lowered and the build is not accurate enough.
        conditioning: What is known of the original from other verifications.
        answers: The original's outputs in these other verifications.
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
        """The build with its accuracy.

        Raises:
            RequirementError: The build is not accurate enough.
        """
        tried = f"{self._profile.name}, {given.artifact.precision}: {topology_digest(given.model)}"
        with self._guarded(tried):
            runner = self._target.load(given.artifact.main, self._profile)
        reference = self._answers.reference_of(self._original)
        export: ExportCheck | None = None
        try:
            export = check_export(self._original, reference, self._samples)
            with self._guarded(tried):
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
        warnings = [*untried, *self._warnings(given, accuracy, reference, runner)]
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
        return extend(
            Verified, given, record=record, accuracy=accuracy, runner=runner, reference=reference, lengths=self._lengths
        )

    @contextmanager
    def _guarded(self, tried: str) -> Iterator[None]:
        """Like :func:`edgekit.processes.crashes.guarded`, with an error that says what ended the process."""
        try:
            with guarded(tried):
                yield
        except CrashError as crash:
            raise CrashError(
                f"the runtime of {self._profile.name} ended the process while it loaded or executed what was built",
                subject=self._original.name,
                expected="a model that its runtime takes",
                found=crash.found,
                hint="`edgekit extract` cuts out parts: report one that ends it to the runtime's makers",
            ) from crash

    def _warnings(self, given: Built, accuracy: Accuracy, reference: Executor, runner: Runner) -> list[str]:
        """The warnings that go with the figures."""
        warnings = [*remarks_on(accuracy), *decided_alone(accuracy, self._decisions)]
        if self._seeded:
            warnings += [] if self._original.states else untested_outputs(reference, self._samples)
        warnings += lost_rows(accuracy) if given.kind is Kind.FLOAT32 else []
        if self._samples.has_labels and accuracy.task is None and self._evaluation is None:
            warnings.append("the samples have labels, but no output of the model tells a class: they were not used")
        if not self._seeded:
            warnings += unproven(accuracy, self._original, self._samples)
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
        return warnings

    @property
    def accepts(self) -> bool:
        """Whether outputs that miss their floors are accepted, unless they are broken."""
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
            subject: What errors call the build.

        Raises:
            InaccurateError: The accuracy is not enough.
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
                self._decisions,
                quantized_outputs(self._original),
                self._original.class_choice,
                padding,
            )
        except OtherFormError as error:  # the length of an output may depend on its values
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

    @functools.cached_property
    def _lengths(self) -> Lengths:
        return Lengths(self._original)

    @functools.cached_property
    def _decisions(self) -> dict[str, Decision | None]:
        return decisions_of(self._original)

    def _padding_on(self, reference: Executor) -> Padding | None:
        """The padding in the samples, which is searched for once."""
        if self._padding is None:
            self._padding = (None if self._seeded else padding_on(self._samples, reference, self._original),)
        return self._padding[0]

    def _fed_back(
        self, given: Built, accuracy: Accuracy, reference: Executor, runner: Runner
    ) -> FedBackAccuracy | None:
        """How near the build stays to the original if its own states are fed back; None without a sequence.

        Raises:
            InaccurateError: The build departs too far, and that is not accepted.
        """
        if self._seeded:
            return None
        decisions = self._decisions
        sequel = compare_fed_back(
            self._samples, reference, runner, self._original, decisions, accuracy.floors, self._progress
        )
        if not self._accept:
            require_sequel(sequel, accuracy, given.kind, given.artifact.precision, self._original.name)
        return sequel

    def evaluated(self, given: Built, reference: Executor, runner: Runner) -> dict[str, Any] | None:
        """What the project's evaluation function measures, as plain data; None without such a function.

        Raises:
            InaccurateError: The build loses more than is allowed.
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
        """The accuracy at each tried size of the open dimensions, and warnings of sizes that could not be judged.

        Raises:
            InaccurateError: The build is not accurate enough at a size.
        """
        found, untried = [], []
        for sizes in trials(given.model.open_dims) if given.model.open_dims else ():
            place = ", ".join(f"{name}={size}" for name, size in sizes.items())
            try:
                samples, accuracy = self._at_size(given, sizes, reference, runner)
            except InaccurateError as error:
                lowered = self._sized(given, sizes).lowered if self._sizes_of_samples else {}
                if not lowered:
                    error.found = f"at {place}: {error.found}"
                    raise
                what = " and ".join(f"{name!r} below {limit}" for name, limit in lowered.items())
                untried.append(
                    f"not judged at {place}, where the samples are cut and their indices point to other places "
                    f"({what}): {error.found}"
                )
                continue
            except NotRunnableError as error:
                if self._sizes_of_samples or is_apart(given.model.open_dims, sizes):
                    untried.append(
                        f"not tried at {place}, where the original does not run on samples cut or filled up to it: "
                        f"{error.cause}"
                    )
                    continue
                raise RequestError(
                    f"does not run at {place}: {error.cause}",
                    subject=self._original.name if error.node is None else f"node {error.node!r}",
                    hint="ask with --dim for sizes that the model takes, as a list: --dim NAME=SIZE,SIZE,…",
                ) from error
            found.append(SizeAccuracy(sizes, len(samples), accuracy.outputs, accuracy.vanished))
        return tuple(found), untried

    def _at_size(
        self, given: Built, sizes: Mapping[str, int], reference: Executor, runner: Runner
    ) -> tuple[Samples, Accuracy]:
        """Samples made for a size, and the accuracy on them.

        Raises:
            InaccurateError: The accuracy is not enough.
            NotRunnableError: The original does not run there, even with lengths and places lowered.
        """
        samples = self._sized(given, sizes)
        try:
            return samples, self.accepted(given, samples, reference, runner, self._original.name)
        except NotRunnableError:
            if not self._lengths.work_out(sizes):
                raise
        samples = self._sized(given, sizes)
        return samples, self.accepted(given, samples, reference, runner, self._original.name)

    def _sized(self, given: Built, sizes: Mapping[str, int]) -> SizedSamples:
        """Samples made for a size, with lengths and places lowered where that is known to be necessary."""
        below = self._lengths.below(sizes)
        return SizedSamples(self._samples, given.model.fed_inputs, sizes, SAMPLES_A_SIZE, below)
