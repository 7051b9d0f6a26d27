"""A model on its way to be quantized and built: loaded, its sizes fixed, in a form that the devices take."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from edgekit.comparison.decisions.classes import ambiguity, require_class_output
from edgekit.data import stated
from edgekit.data.labels import check_class_names, read_class_names
from edgekit.data.media_sizes import media_size
from edgekit.data.picture_sizes import require_size
from edgekit.data.sampled_shapes import SampledShapes, sampled_shapes
from edgekit.data.samples import (
    Samples,
    SeededSamples,
    open_samples,
    pixels_as_they_are,
    require_declaration,
    require_sample_files,
)
from edgekit.diagnosis.scattered_twice import scattered_twice
from edgekit.errors import InputError
from edgekit.execution.recurrence import SEEDED_STEPS, FedBackOriginal, with_states
from edgekit.execution.reference import Reference
from edgekit.features.dimensions import defaults
from edgekit.graph.random_inputs import draws_numbers
from edgekit.graph.sizes.default_sizes import AcceptedSizes
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.graph.training_mode import require_inference
from edgekit.model import Model, ValueSpec
from edgekit.packaging.device_sizes import fixed_for, held_sizes, require_one_size, with_sizes_of_samples
from edgekit.packaging.request import PackageRequest
from edgekit.packaging.stage_runner import StageRunner
from edgekit.preprocessing import Preprocessing, resolve_preprocessing
from edgekit.progress import Progress
from edgekit.registry import installed_rewrites
from edgekit.rewrites.adaptation import Adapter
from edgekit.stages.load import Load
from edgekit.stages.locales import require_locales
from edgekit.stages.precheck import PreCheck
from edgekit.stages.random_inputs import RandomInputs
from edgekit.stages.sample_runs import require_runs
from edgekit.stages.simplify import Simplify
from edgekit.stages.suppress_boxes import SuppressBoxes, with_recorded
from edgekit.stages.take_branch import TakeBranch, needs_branch, sampled_choices
from edgekit.stages.words_as_numbers import WordsAsNumbers, needs_numbers
from edgekit.target import BuildOptions, Profile, Target

EXAMPLES = 2
"""How many samples a target gets to base its decisions on."""
SEEDED_SAMPLES = 4
"""How many random inputs a model is verified on if there is no data."""
Profiles = Sequence[tuple[Target, Profile]]
"""The devices to build for, the main one first."""


@dataclass(frozen=True)
class Prepared:
    """A model that is ready to be quantized and built, with its samples."""

    name: str
    """The stem of the model's file."""
    original: Model
    """The model whose outputs are compared with those of a built form."""
    fixed: Model
    """The original with the inputs and sizes that the devices take."""
    ready: Model
    """The ``fixed`` model, simplified and rewritten for the main device."""
    options: BuildOptions
    """The build options for the main target."""
    calibration: Samples | None
    verification: Samples


@dataclass(frozen=True)
class _Fixed:
    """A model with the inputs and sizes that the devices take."""

    model: Model
    left_out: Collection[str]
    """Names of arrays in samples that the model does not take."""
    other_sizes: Collection[Path]
    """Files of samples with sizes that the model does not take."""


def prepared(request: PackageRequest, profiles: Profiles, stages: StageRunner, progress: Progress) -> Prepared:
    """The model of a request, ready to be quantized and built.

    Args:
        request: What to package.
        profiles: The devices to build for.
        stages: Runs the stages.
        progress: Told of steps while the model is built.

    Raises:
        InputError: The request does not fit the model, or the samples do not.
        RequirementError: The model cannot work, or the main device lacks operators.
    """
    class_names = () if request.labels is None else read_class_names(request.labels)
    simplify, adapter = Simplify(), Adapter(installed_rewrites())
    loaded, sampled = _loaded(request, profiles, class_names, stages)
    found = _fixed(request, profiles, loaded, sampled, stages, simplify, adapter)
    fixed, folders = found.model, (request.data, request.verify_data)
    original = loaded if not fixed.states and _takes_the_same(loaded, fixed) else fixed
    if request.labels is not None:
        check_class_names(class_names, request.labels, fixed.outputs, fixed.fed_inputs)
    class_names = class_names or fixed.class_names
    at_defaults = at_sizes(fixed.fed_inputs, defaults(fixed.open_dims))
    media = not sampled.count and folders != (None, None)
    preprocessing = _fitting_preprocessing(request, at_defaults, stages, media=media)
    preprocessing = preprocessing or stated.preprocessing(fixed.metadata, at_defaults)
    if preprocessing is None and media:
        preprocessing = pixels_as_they_are(at_defaults, *(folder for folder in folders if folder is not None))
    (target, profile), *_ = profiles
    options = BuildOptions(
        request.precision, request.own_options(target), labels=class_names, preprocessing=preprocessing
    )
    for known, _ in profiles:
        known.require_options(replace(options, options=request.own_options(known)), fixed)
    calibration, verification = _samples(request, fixed, options, found.left_out, found.other_sizes)
    if request.postprocess is not None:
        suppressed = stages.run_stage(SuppressBoxes(request.postprocess, verification), fixed)
        original = suppressed.model if original is fixed else with_recorded(original, suppressed.record)
        fixed = suppressed.model
    options = replace(options, examples=tuple(_examples(original, verification)), progress=progress.step)
    for warning in scattered_twice(original, options.examples if folders != (None, None) else ()):
        stages.warn(warning)
    require_class_output(fixed)
    ambiguous = ambiguity(fixed, labelled=verification.has_labels)
    if ambiguous is not None:
        stages.warn(ambiguous)
    ready = stages.run_stage(simplify, fixed).model
    ready = stages.run_stage(PreCheck(target, profile, adapter), ready).model
    return Prepared(loaded.name, original, fixed, ready, options, calibration, verification)


def _loaded(
    request: PackageRequest, profiles: Profiles, class_names: Sequence[str], stages: StageRunner
) -> tuple[Model, SampledShapes]:
    """The loaded model, with class names and outputs as the request declares them, and the shapes of the samples.

    Raises:
        InputError: A folder of samples is missing, or the labels are in another order than the model's.
        RequirementError: The model does not run on the samples, or is one for training.
    """
    folders = request.data, request.verify_data
    for folder in folders:
        if folder is not None:
            require_sample_files(folder)
    sampled = sampled_shapes(*folders)
    loaded = stages.run_stage(Load(sampled.names), request.model).model
    require_inference(loaded)
    require_locales(loaded)
    if request.labels is not None:
        stages.hold_class_names(class_names, request.labels, loaded)
    loaded = replace(loaded, class_names=tuple(class_names) or loaded.class_names).with_outputs(request.outputs)
    sampled = sampled.for_inputs(loaded.inputs)
    if not sampled.count:
        if request.preprocessing is None and stated.task(loaded.metadata) is None:
            require_declaration(loaded.inputs, *folders)
        sampled = replace(sampled, media=media_size(loaded.inputs, request.preprocessing, *folders))
    require_runs(loaded, folders, request.shapes, every=held_sizes(profiles) is AcceptedSizes.ANY)
    return with_sizes_of_samples(loaded, request.shapes, sampled, held_sizes(profiles), stages, *folders), sampled


def _fixed(
    request: PackageRequest,
    profiles: Profiles,
    loaded: Model,
    sampled: SampledShapes,
    stages: StageRunner,
    simplify: Simplify,
    adapter: Adapter,
) -> _Fixed:
    """The model with the inputs and sizes that the devices take.

    Raises:
        InputError: Shapes that were asked for do not fit, or the samples have several sizes and the device holds one.
    """
    with_sizes = fixed_for(profiles, loaded, request.shapes, sampled, stages, simplify, adapter)
    fixed, other_sizes = with_sizes.model, with_sizes.left_out.files
    if draws_numbers(fixed):
        fixed = stages.run_stage(RandomInputs(), fixed).model
    if needs_numbers(fixed, profiles):
        fixed = stages.run_stage(WordsAsNumbers(sampled.without(other_sizes)), fixed).model
    if needs_branch(fixed, profiles):
        choices = sampled_choices(fixed, request.data, request.verify_data)
        fixed = stages.run_stage(TakeBranch(choices), fixed).model
    if with_sizes.device is not AcceptedSizes.ANY:
        require_one_size(fixed, sampled.without(other_sizes), with_sizes.device)
    left_out = {spec.name for spec in loaded.inputs} - {spec.name for spec in fixed.inputs}
    fixed = with_states(fixed, request.states)
    if fed := sorted(request.states.keys() & {name for shapes in sampled.each for name in shapes}):
        stages.warn(
            f"{', '.join(map(repr, fed))} in the samples {'is' if len(fed) == 1 else 'are'} not used: the built "
            "model keeps its states itself, starting from zero"
        )
        left_out |= set(fed)
    return _Fixed(fixed, left_out, other_sizes)


def _fitting_preprocessing(
    request: PackageRequest, inputs: tuple[ValueSpec, ...], stages: StageRunner, *, media: bool
) -> Preprocessing | None:
    """The declared preprocessing with the settings that it omits filled in.

    None if none is declared, or if it is declared for several models and does not fit this one.

    Args:
        request: The request with the declaration.
        inputs: The model's inputs, shapes fixed.
        stages: Gets a warning if a declaration for several models does not fit this one.
        media: Whether samples are pictures or sounds, which need preprocessing.

    Raises:
        InputError: The declared preprocessing does not fit the model.
    """
    try:
        require_size(inputs, request.preprocessing, request.data, request.verify_data)
        return resolve_preprocessing(request.preprocessing, inputs)
    except InputError as error:
        if media or not request.shares_preprocessing:
            raise
        text = error.message if error.expected is None else f"{error.message} (expected: {error.expected})"
        stages.warn(
            f"[preprocessing] is not used, because no sample is a picture or a sound: {text}; preprocessing = false "
            "in the bundle's table declares that it has none"
        )
        return None


def _takes_the_same(loaded: Model, fixed: Model) -> bool:
    """Whether the loaded model takes inputs of the types and shapes of the fixed model."""
    names = ([(spec.name, spec.dtype) for spec in model.inputs] for model in (loaded, fixed))
    return next(names) == next(names) and all(
        before.shape is not None
        and after.shape is not None
        and all(not isinstance(old, int) or old == new for old, new in zip(before.shape, after.shape, strict=True))
        for before, after in zip(loaded.inputs, fixed.inputs, strict=True)
    )


def _samples(
    request: PackageRequest,
    model: Model,
    options: BuildOptions,
    left_out: Collection[str],
    without: Collection[Path],
) -> tuple[Samples | None, Samples]:
    """The samples to calibrate on, or None, and the samples to verify on."""

    def opened(folder: Path) -> Samples:
        return open_samples(
            folder,
            model.fed_inputs,
            options.preprocessing,
            options.labels,
            model.open_dims,
            left_out,
            model.nan_inputs,
            without,
        )

    calibration = None if request.data is None else opened(request.data)
    if request.verify_data is not None:
        return calibration, opened(request.verify_data)
    return calibration, calibration or SeededSamples(
        model, SEEDED_STEPS if model.states else SEEDED_SAMPLES, options.preprocessing
    )


def _examples(original: Model, samples: Samples) -> Iterator[Mapping[str, np.ndarray]]:
    """The first samples, completed by the states that the model has at these steps of a sequence."""
    first = (sample.feeds for sample in islice(samples, EXAMPLES))
    if not original.states:
        yield from first
        return
    reference = FedBackOriginal(Reference(original), original)
    for feeds in first:
        yield reference.completed(feeds)
        reference.run(feeds)
