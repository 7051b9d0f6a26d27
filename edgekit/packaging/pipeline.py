"""Packages a model: from an ONNX file to a bundle, stage after stage."""

from __future__ import annotations

import os
from concurrent.futures import Executor
from dataclasses import replace
from itertools import islice
from pathlib import Path

from edgekit.bundle import MANIFEST, Bundle, foreign_files, is_bundle, read_bundle
from edgekit.comparison.decisions.classes import Classes, classes_of
from edgekit.comparison.meaning import SEEN
from edgekit.data.samples import Samples
from edgekit.errors import InputError
from edgekit.execution.recurrence import restart
from edgekit.features.class_scores import EMBEDDINGS
from edgekit.files import lfs
from edgekit.files.atomic import atomic_directory
from edgekit.files.bundle_folder import require_outside_bundles
from edgekit.files.regular_file import read_json
from edgekit.model import Model
from edgekit.packaging.candidates import CandidateOutcomes
from edgekit.packaging.float_form import name_of_given
from edgekit.packaging.forms import Forms, Requirements
from edgekit.packaging.preparation import Prepared, prepared
from edgekit.packaging.request import PackageRequest, require_possible
from edgekit.packaging.stage_runner import StageRunner
from edgekit.packaging.tables import sample_folders
from edgekit.progress import Progress
from edgekit.registry import find_witness
from edgekit.stages.bench import Bench, Measured
from edgekit.stages.bundle import Facts, FurtherBuild, WriteBundle
from edgekit.stages.layers import MeasureLayers
from edgekit.stages.quantize import Quantize, Quantized
from edgekit.stages.run_witness import RunWitness
from edgekit.stages.verify import Verified
from edgekit.target import BuildOptions, Profile, Target
from edgekit.timing.latency import enough_seconds
from edgekit.witness import Witness, require_executed


def package(request: PackageRequest, progress: Progress, executor: Executor | None = None) -> Bundle:
    """Packages a model, and proves that the bundle computes what the model computes.

    Requests that cannot succeed are refused before any work. The bundle gets its name only once it is complete.

    Args:
        request: What to package, and how.
        progress: Told of the stages.
        executor: Evaluates a quantizer's candidates in other processes; None evaluates them in this one.

    Raises:
        InputError: The request does not fit, or the output cannot be written.
        RequirementError: Operators are missing, or the accuracy is under the floor.
    """
    (target, profile), *others = profiles = request.profiles()
    require_possible(request, profiles)
    enough_seconds()  # refuses an invalid duration before the long work
    witness = None if request.witness is None else find_witness(request.witness)
    if witness is not None:
        require_executed(witness, {profile.name: target.name for target, profile in profiles})
    require_replaceable(request.output, request.output_chosen_with)
    stages, outcomes = StageRunner(progress), CandidateOutcomes()
    if request.like is not None:
        request.like.require_target(target.name)
        if (warning := request.like.of_another_model(request.model)) is not None:
            stages.warn(warning)
    given, chosen_with = (request.data, request.verify_data), request.output_chosen_with
    with (
        atomic_directory(request.output, what="bundle", may_replace=is_bundle, chosen_with=chosen_with) as folder,
        sample_folders(request.model, given, request.tables, request.label, request.labels, stages.warn) as folders,
    ):
        model = prepared(replace(request, data=folders[0], verify_data=folders[1]), profiles, stages, progress)
        quantized = _quantized(request, target, profile, model, stages, progress, executor)
        outcomes.given = name_of_given(quantized.of_float)
        outcomes.measured(quantized.record)
        requirements = _requirements(request, model)
        forms = Forms(stages, target, profile, folder, model.options, requirements, request.scheme)
        floats, others_of_quantized = request.precisions(target, profile)
        if request.like is not None:
            floats = request.like.first(floats)
        verified = forms.first_accepted(quantized, (floats, others_of_quantized), outcomes)
        _witnessed(stages, target, verified, witness, model.verification)
        further = [
            _built_further(*other, forms.shipped, request, folder, model.options, requirements, witness, progress)
            for other in others
        ]
        bench = Bench(model.original, profile, model.verification, progress.step)
        measured = stages.run_stage(bench, verified, Measured)
        measured = stages.run_stage(MeasureLayers(model.fixed, model.verification, progress.step), measured, Measured)
        facts = Facts(
            request.name or model.name,
            request.model,
            request.fingerprint(),
            request.options(),
            model.options.preprocessing,
            model.options.labels,
            request.samples(),
            outcomes.as_record(),
            _classes(model.original, verified, model.verification),
        )
        write = WriteBundle(folder, target, profile, facts, model.verification, stages.records, further, progress.step)
        stages.run_stage(write, measured)
    return read_bundle(request.output)


def _quantized(
    request: PackageRequest,
    target: Target,
    profile: Profile,
    model: Prepared,
    stages: StageRunner,
    progress: Progress,
    executor: Executor | None,
) -> Quantized:
    """The best quantized form, or the float model if that is asked for or no quantized form is better.

    Raises:
        RequirementError: A quantized form is asked for, and none holds the budget.
    """
    quantize = Quantize(
        request.scheme,
        target,
        profile,
        model.options,
        model.calibration,
        request.max_drop,
        progress.step,
        request.evaluation,
        executor,
        request.quantizer,
        request.instruction_sets,
        smallest=request.smallest,
        max_bytes=request.max_bytes,
        choice=None if request.like is None else request.like.candidate,
        explain=True,
    )
    quantized = stages.run_stage(quantize, model.ready, Quantized)
    return quantized.in_float() if request.like is not None and request.like.in_float else quantized


def _requirements(request: PackageRequest, model: Prepared) -> Requirements:
    """The requirements for each form that is built."""
    return Requirements(
        model.original,
        model.verification,
        model.calibration,
        request.max_drop,
        request.floor_db,
        request.evaluation,
        request.instruction_sets,
        request.max_bytes,
        accept=request.accept,
        any_speed=request.is_sized or request.like is not None,
        sizes_of_samples=not request.shapes.open_dims,
    )


def _classes(original: Model, verified: Verified, samples: Samples) -> Classes | None:
    """What tells the class; None unless classes have names, samples have labels, or the user declares the classes."""
    if not (samples.has_labels or original.class_choice.has_classes):
        return None
    restart(verified.reference)
    meaning = verified.accuracy.meaning
    embeddings = meaning.outputs if meaning is not None and meaning.kind == EMBEDDINGS else ()
    answers = [verified.reference.run(sample.feeds) for sample in islice(samples, SEEN)]
    return classes_of(original, answers, embeddings)


def require_replaceable(output: Path, chosen_with: str) -> None:
    """Checks that replacing a bundle that exists would not delete files of the user.

    Args:
        output: The bundle's folder.
        chosen_with: The option with which the user chooses the folder, for the hint.

    Raises:
        InputError: The bundle's folder holds files that EdgeKit did not put there, or lies in another bundle, or its
            manifest, which lists EdgeKit's files, is damaged or a Git LFS pointer.
    """
    require_outside_bundles(output)
    manifest = output / MANIFEST
    is_there = os.path.isfile(manifest)  # noqa: PTH113  # False where nothing may be read
    if is_there and lfs.is_pointer(manifest):
        raise InputError(
            "is a Git LFS pointer, so it is not known whether the folder is a bundle that may be replaced",
            subject=manifest,
            hint=f"fetch the bundle with {lfs.FETCHING}, or remove the folder",
        )
    if is_there:
        try:
            read_json(manifest)
        except InputError as error:
            raise InputError(
                "is damaged, so it is not known whether the folder is a bundle that may be replaced",
                subject=manifest,
                found=error.message,
                hint=f"remove the folder if it is a bundle, or choose another name with {chosen_with}",
            ) from error
    foreign = foreign_files(output) if is_bundle(output) else []
    if foreign:
        raise InputError(
            "holds files that are not of the bundle, which would be lost",
            subject=output,
            found=", ".join(foreign[:5]) + (f" and {len(foreign) - 5} more" if len(foreign) > 5 else ""),
            hint=f"move them elsewhere, or choose another name with {chosen_with}",
        )


def _built_further(
    target: Target,
    profile: Profile,
    form: Quantized,
    request: PackageRequest,
    folder: Path,
    options: BuildOptions,
    requirements: Requirements,
    witness: Witness | None,
    progress: Progress,
) -> FurtherBuild:
    """The form that ships, built and verified for another device in a folder of its own next to the first build.

    Raises:
        RequirementError: The form cannot be built, or is not accurate enough.
    """
    place = folder / profile.name
    place.mkdir()
    stages, outcomes = StageRunner(progress), CandidateOutcomes()
    own = request.own_options(target)
    forms = Forms(
        stages, target, profile, place, replace(options, options=own), requirements, request.scheme, others=True
    )
    verified = forms.first_accepted(form, request.precisions(target, profile), outcomes)
    witnessed = _witnessed(stages, target, verified, witness, requirements.samples)
    return FurtherBuild(target, profile, verified, outcomes.as_record(), stages.records, witnessed)


def _witnessed(
    stages: StageRunner, target: Target, verified: Verified, witness: Witness | None, samples: Samples
) -> bool:
    """Whether there is a witness that executes what was built; if so, it agreed."""
    if witness is None or target.name not in witness.targets:
        return False
    stages.run_stage(RunWitness(witness, samples), verified)
    return True
