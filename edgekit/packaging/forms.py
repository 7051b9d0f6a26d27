"""Builds and verifies one form of the model after the other for one device, until one holds what is asked of it."""

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
from edgekit.files.room import shortage
from edgekit.model import Model
from edgekit.packaging.candidates import Candidate, Fates, candidates, first_that_holds, require_size
from edgekit.packaging.float_form import AUTO, FLOAT16, FLOAT32, FloatForm, NotWorthItError
from edgekit.packaging.walk import Walk
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
"""How often a target decides once more, on the samples on which what it built is not accurate enough."""


@dataclass(frozen=True)
class HeldTo:
    """What every form of the model is held to, on whatever device."""

    original: Model
    samples: Samples
    """What it is verified on."""
    calibration: Samples | None
    """What it was calibrated on."""
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
        walk: Runs the stages.
        target: Who builds.
        profile: The device.
        folder: Where to build; exists and is empty.
        options: How to build, but for precision and compression.
        held_to: What they are held to.
        scheme: The quantization scheme that was asked for.
        others: Whether the model was checked and rewritten for another device, so that this one has to be asked anew.
    """

    def __init__(
        self,
        walk: Walk,
        target: Target,
        profile: Profile,
        folder: Path,
        options: BuildOptions,
        held_to: HeldTo,
        scheme: str,
        *,
        others: bool = False,
    ) -> None:
        self._walk = walk
        self._target = target
        self._profile = profile
        self._folder = folder
        self._options = options
        self._held_to = held_to
        self._scheme = scheme
        self._others = others
        self._conditioning = KnownConditioning()
        self._answers = KnownAnswers()
        self._tried: list[Quantized] = []
        self._model: Model | None = None
        quantized_here = bool(walk.records) and walk.records[-1]["name"] == Quantize.name
        self._first_of_form = len(walk.records) - quantized_here
        """Where the records of the quantized model begin that is tried, its quantization included."""
        self._first_build = self._first_of_form
        """Where those of what is built of it in one precision begin."""

    @property
    def shipped(self) -> Quantized:
        """The form that was tried last, which is the one that holds."""
        return self._tried[-1]

    def first_that_holds(
        self, quantized: Quantized, precisions: tuple[Sequence[str], Sequence[str]], fates: Fates
    ) -> Verified:
        """What was built of the first form that holds, in the folder.

        Args:
            quantized: The form to begin with; it may know what to try next.
            precisions: In which a float model is tried in turn, and the rest of a quantized one.
            fates: Told what becomes of each.

        Raises:
            edgekit.errors.EdgeKitError: What the last one failed by.
        """
        return first_that_holds(
            candidates(quantized, *precisions),
            self._attempt,
            fates,
            self._fall_back,
            whatever_fails=self._scheme == "auto",
        )

    def _attempt(self, candidate: Candidate) -> Verified:
        """What was built.

        Raises:
            OSError: The disk is full: that says nothing of the candidate.
        """
        try:
            return self._on_more_examples(candidate)
        except (InaccurateError, NotWorthItError, UnsupportedOpsError):
            raise  # what is known of the candidate
        except Exception as error:
            number = shortage(self._folder)
            if number is not None:
                raise OSError(number, os.strerror(number), str(self._folder)) from error
            raise

    def _on_more_examples(self, candidate: Candidate) -> Verified:
        """What was built, by further examples where it is not accurate on some samples."""
        options, original = self._options, self._held_to.original
        model = self._checked(candidate.quantized)
        self._first_build = len(self._walk.records)
        for _ in range(MORE_EXAMPLES):
            attempt = len(self._walk.records)
            try:
                return self._once(candidate, model, options)
            except InaccurateError as error:
                failing = tuple(_feeds_at(self._held_to.samples, error.worst_samples))
                in_half = candidate.precision == AUTO and error.precision != FLOAT32 and not original.states
                if not (self._target.goes_by_examples and in_half and not candidate.quantized.quantized and failing):
                    raise
                options = replace(options, examples=(*failing, *options.examples))
                self._walk.set_aside(attempt)
                self._walk.warn(
                    f"float16 is not accurate enough ({error.found}): what stays in float32 is decided anew, with "
                    f"{len(failing)} of these samples"
                )
                _empty(self._folder)
        return self._once(candidate, model, options)

    def _once(self, candidate: Candidate, model: Model, options: BuildOptions) -> Verified:
        form, held_to = candidate.quantized, self._held_to
        own = self._target.weight_schemes(self._profile)
        asked = replace(
            options, precision=candidate.precision, compression=self._scheme if self._scheme in own else None
        )
        build = Build(self._target, self._profile, asked, self._folder, quantized=form.quantized)
        built = self._walk.run_stage(build, model, Built)
        halved = options.precision == AUTO and candidate.precision == FLOAT16
        chosen_freely = self._scheme == "auto" and (halved or not form.stays_float)
        of_float = FloatForm(form.of_float, self._target, self._profile, options)
        if held_to.max_bytes is not None:
            require_size(built, held_to.max_bytes, searched=self._scheme == "auto" and held_to.calibration is not None)
        if chosen_freely and not form.stays_float:
            of_float.require_smaller(built)
        elif halved and chosen_freely and self._profile.runs_here and not held_to.any_speed:
            of_float.require_smaller(built, in_half=True)  # elsewhere the device may compute in half precision
        verify = Verify(
            held_to.original,
            self._target,
            self._profile,
            held_to.samples,
            held_to.max_drop,
            options.progress,
            calibrated_on_same=form.quantized and held_to.samples is held_to.calibration,
            evaluation=held_to.evaluation,
            floor_db=held_to.floor_db,
            accept=held_to.accept,
            sizes_of_samples=held_to.sizes_of_samples,
            conditioning=self._conditioning,
            answers=self._answers,
        )
        verified = self._walk.run_stage(verify, built, Verified)
        sets = VerifyInstructionSets(
            verify,
            self._target,
            self._profile,
            held_to.instruction_sets,
            held_to.samples,
            self._folder,
            form.of_float,
            options,
            form.judged_with,
        )
        if sets.counts(verified):
            verified = self._walk.run_stage(sets, verified, Verified)
        simulate = Simulate(
            verify, self._target, self._profile, held_to.samples, self._folder, is_last=form.stays_float
        )
        if simulate.counts:
            verified = self._walk.run_stage(simulate, verified, Verified)
        if chosen_freely and not held_to.any_speed:
            in_half = halved and form.stays_float
            of_float.require_as_fast(verified.artifact, held_to.samples, in_half=in_half)
        return verified

    def _checked(self, form: Quantized) -> Model:
        """The form's model, once the target was asked about its operators."""
        if self._model is None or form is not self._tried[-1]:
            self._model = None
            if self._tried:
                self._first_of_form = len(self._walk.records)
                self._walk.keep(Quantize.name, form.record)
            self._first_build = self._first_of_form
            self._tried.append(form)
            device = self._target, self._profile
            ask = PreCheck(*device, Adapter(installed_rewrites())) if self._others else CheckOperators(*device)
            self._model = self._walk.run_stage(ask, form.model).model
        return self._model

    def _fall_back(self, before: Candidate, form: Candidate, why: str) -> Sequence[str]:
        """Gives up what was made of a candidate but for what the next one starts from; gives what it was warned of."""
        shared = form.quantized is before.quantized
        warnings = self._walk.set_aside(self._first_build if shared else self._first_of_form)
        self._walk.warn(why)
        _empty(self._folder)
        return warnings


def _feeds_at(samples: Samples, places: Collection[int]) -> Iterator[Mapping[str, np.ndarray]]:
    """What the samples at these places feed."""
    return (sample.feeds for sample in samples_at(samples, places))


def _empty(folder: Path) -> None:
    """Removes what is in a folder."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
