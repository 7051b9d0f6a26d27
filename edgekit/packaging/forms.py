"""Builds and verifies one form of the model after another for one device, until one meets the requirements."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgekit.comparison.acceptance.conditioning import KnownConditioning
from edgekit.comparison.acceptance.refusal import InaccurateError
from edgekit.comparison.custom_metric import Evaluation
from edgekit.data.samples import Samples, samples_at
from edgekit.errors import UnsupportedOpsError
from edgekit.execution.known_answers import KnownAnswers
from edgekit.files.disk_space import shortage
from edgekit.model import Model
from edgekit.packaging.candidates import Candidate, CandidateOutcomes, candidates, first_accepted, require_size
from edgekit.packaging.float_form import AUTO, FLOAT16, FLOAT32, FloatForm, NotWorthItError
from edgekit.packaging.stage_runner import StageRunner
from edgekit.registry import installed_rewrites
from edgekit.rewrites.adaptation import Adapter
from edgekit.stages.build import Build, Built
from edgekit.stages.check import CheckOperators
from edgekit.stages.instruction_sets import VerifyInstructionSets
from edgekit.stages.precheck import PreCheck
from edgekit.stages.quantize import Quantize, Quantized
from edgekit.stages.simulate import Simulate
from edgekit.stages.verify import Verified, Verify
from edgekit.target import BuildOptions, Profile, Target

MORE_EXAMPLES = 2
"""How many times a target decides again, with the samples on which its build was not accurate enough."""


@dataclass(frozen=True)
class Requirements:
    """The requirements for every form of the model, the same for every device."""

    original: Model
    samples: Samples
    """The samples to verify on."""
    calibration: Samples | None
    """The samples that the model was calibrated on."""
    max_drop: float | None
    floor_db: float | None
    evaluation: Evaluation | None
    instruction_sets: Sequence[str] | None
    max_bytes: int | None
    accept: bool
    any_speed: bool
    """Whether a form that was chosen freely, quantized or in half precision, may be slower or hardly smaller."""
    sizes_of_samples: bool = False
    """Whether open dimensions have the sizes of the samples, and nobody asked for others."""


class Forms:
    """The forms of one model for one device.

    Args:
        stages: Runs the stages.
        target: The target that builds.
        profile: The device.
        folder: Where to build; exists and is empty.
        options: How to build; precision and compression are replaced.
        requirements: The requirements.
        scheme: The quantization scheme that was asked for.
        others: Whether the model was checked and rewritten for another device, so that this one needs its own check.
    """

    def __init__(
        self,
        stages: StageRunner,
        target: Target,
        profile: Profile,
        folder: Path,
        options: BuildOptions,
        requirements: Requirements,
        scheme: str,
        *,
        others: bool = False,
    ) -> None:
        self._stages = stages
        self._target = target
        self._profile = profile
        self._folder = folder
        self._options = options
        self._requirements = requirements
        self._scheme = scheme
        self._others = others
        self._conditioning = KnownConditioning()
        self._answers = KnownAnswers()
        self._tried: list[Quantized] = []
        self._model: Model | None = None
        quantized_here = bool(stages.records) and stages.records[-1]["name"] == Quantize.name
        self._first_of_form = len(stages.records) - quantized_here
        """Index of the first record of the quantized form that is tried, that of its quantization included."""
        self._first_build = self._first_of_form
        """Index of the first record of what is built of that form in one precision."""

    @property
    def shipped(self) -> Quantized:
        """The form that was tried last, which is the one that meets the requirements."""
        return self._tried[-1]

    def first_accepted(
        self, quantized: Quantized, precisions: tuple[Sequence[str], Sequence[str]], outcomes: CandidateOutcomes
    ) -> Verified:
        """The first form that meets the requirements, built in the folder and verified.

        Args:
            quantized: The form to begin with; it may know what to try next.
            precisions: The precisions in which a float model is tried, and those for the rest of a quantized model.
            outcomes: Records what becomes of each form.

        Raises:
            edgekit.errors.EdgeKitError: The error of the last form that was tried.
        """
        return first_accepted(
            candidates(quantized, *precisions),
            self._attempt,
            outcomes,
            self._fall_back,
            whatever_fails=self._scheme == "auto",
        )

    def _attempt(self, candidate: Candidate) -> Verified:
        """Builds and verifies a candidate.

        Raises:
            OSError: The disk is full, which says nothing about the candidate.
        """
        try:
            return self._on_more_examples(candidate)
        except (InaccurateError, NotWorthItError, UnsupportedOpsError):
            raise  # these errors are about the candidate
        except Exception as error:
            number = shortage(self._folder)
            if number is not None:
                raise OSError(number, os.strerror(number), str(self._folder)) from error
            raise

    def _on_more_examples(self, candidate: Candidate) -> Verified:
        """Builds and verifies a candidate; if it is not accurate on some samples, again with these as examples."""
        options, original = self._options, self._requirements.original
        model = self._checked(candidate.quantized)
        self._first_build = len(self._stages.records)
        for _ in range(MORE_EXAMPLES):
            attempt = len(self._stages.records)
            try:
                return self._once(candidate, model, options)
            except InaccurateError as error:
                failing = tuple(_feeds_at(self._requirements.samples, error.worst_samples))
                in_half = candidate.precision == AUTO and error.precision != FLOAT32 and not original.states
                if not (self._target.goes_by_examples and in_half and not candidate.quantized.quantized and failing):
                    raise
                options = replace(options, examples=(*failing, *options.examples))
                self._stages.set_aside(attempt)
                self._stages.warn(
                    f"float16 is not accurate enough ({error.found}): what stays in float32 is decided anew, with "
                    f"{len(failing)} of these samples"
                )
                _empty(self._folder)
        return self._once(candidate, model, options)

    def _once(self, candidate: Candidate, model: Model, options: BuildOptions) -> Verified:
        form, requirements = candidate.quantized, self._requirements
        own = self._target.weight_schemes(self._profile)
        asked = replace(
            options, precision=candidate.precision, compression=self._scheme if self._scheme in own else None
        )
        build = Build(self._target, self._profile, asked, self._folder, quantized=form.quantized)
        built = self._stages.run_stage(build, model, Built)
        halved = options.precision == AUTO and candidate.precision == FLOAT16
        chosen_freely = self._scheme == "auto" and (halved or not form.stays_float)
        of_float = FloatForm(form.of_float, self._target, self._profile, options)
        if requirements.max_bytes is not None:
            require_size(
                built, requirements.max_bytes, searched=self._scheme == "auto" and requirements.calibration is not None
            )
        if chosen_freely and not form.stays_float:
            of_float.require_smaller(built)
        elif halved and chosen_freely and self._profile.runs_here and not requirements.any_speed:
            of_float.require_smaller(built, in_half=True)  # elsewhere the device may compute in half precision
        verify = self._verification(form, options)
        verified = self._stages.run_stage(verify, built, Verified)
        verified = self._verified_as_on_devices(verified, verify, form, options)
        if chosen_freely and not requirements.any_speed:
            in_half = halved and form.stays_float
            of_float.require_as_fast(verified.artifact, requirements.samples, in_half=in_half)
        return verified

    def _verification(self, form: Quantized, options: BuildOptions) -> Verify:
        """The stage that compares what is built of a form with the original."""
        requirements = self._requirements
        return Verify(
            requirements.original,
            self._target,
            self._profile,
            requirements.samples,
            requirements.max_drop,
            options.progress,
            calibrated_on_same=form.quantized and requirements.samples is requirements.calibration,
            evaluation=requirements.evaluation,
            floor_db=requirements.floor_db,
            accept=requirements.accept,
            sizes_of_samples=requirements.sizes_of_samples,
            conditioning=self._conditioning,
            answers=self._answers,
        )

    def _verified_as_on_devices(
        self, verified: Verified, verify: Verify, form: Quantized, options: BuildOptions
    ) -> Verified:
        """Also verified with the instruction sets of the devices, and in a simulator of the device if there is one."""
        requirements = self._requirements
        sets = VerifyInstructionSets(
            verify,
            self._target,
            self._profile,
            requirements.instruction_sets,
            requirements.samples,
            self._folder,
            form.of_float,
            options,
            form.judged_with,
        )
        if sets.counts(verified):
            verified = self._stages.run_stage(sets, verified, Verified)
        simulate = Simulate(
            verify, self._target, self._profile, requirements.samples, self._folder, is_last=form.stays_float
        )
        return self._stages.run_stage(simulate, verified, Verified) if simulate.counts else verified

    def _checked(self, form: Quantized) -> Model:
        """The form's model, after its operators were checked for the device; a form is checked once."""
        if self._model is None or form is not self._tried[-1]:
            self._model = None
            if self._tried:
                self._first_of_form = len(self._stages.records)
                self._stages.keep(Quantize.name, form.record)
            self._first_build = self._first_of_form
            self._tried.append(form)
            device = self._target, self._profile
            ask = PreCheck(*device, Adapter(installed_rewrites())) if self._others else CheckOperators(*device)
            self._model = self._stages.run_stage(ask, form.model).model
        return self._model

    def _fall_back(self, before: Candidate, form: Candidate, why: str) -> Sequence[str]:
        """Discards what was built of a candidate, except what the next one starts from; returns its warnings."""
        shared = form.quantized is before.quantized
        warnings = self._stages.set_aside(self._first_build if shared else self._first_of_form)
        self._stages.warn(why)
        _empty(self._folder)
        return warnings


def _feeds_at(samples: Samples, places: Collection[int]) -> Iterator[Mapping[str, np.ndarray]]:
    """The inputs of the samples at these places."""
    return (sample.feeds for sample in samples_at(samples, places))


def _empty(folder: Path) -> None:
    """Removes what is in a folder."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
