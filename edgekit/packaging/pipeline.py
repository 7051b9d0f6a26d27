"""The corridor that a model walks down: from an ONNX file to a bundle, stage after stage."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.bundle import Bundle, foreign_files, is_bundle, read_bundle
from edgekit.comparison.classes import Classes, ambiguity, classes_of, require_class_output
from edgekit.comparison.custom_metric import Evaluation
from edgekit.comparison.meaning import SEEN
from edgekit.data import stated
from edgekit.data.labels import check_class_names, read_class_names
from edgekit.data.picture_sizes import picture_size, require_size
from edgekit.data.sampled_shapes import sampled_shapes
from edgekit.data.samples import Samples, SeededSamples, open_samples, require_sample_files
from edgekit.devices.instruction_set import require_executable
from edgekit.diagnosis.scattered_twice import scattered_twice
from edgekit.errors import InputError
from edgekit.execution.recurrence import SEEDED_STEPS, FedBack, restart, with_states
from edgekit.execution.reference import Reference
from edgekit.features.class_scores import ClassChoice
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.features.dimensions import defaults, written
from edgekit.files.atomic import atomic_directory
from edgekit.fingerprint import data_files, fingerprint, model_files
from edgekit.graph.random_inputs import draws_numbers
from edgekit.graph.sizes.default_sizes import Holds
from edgekit.graph.sizes.shape_request import ShapeRequest, at_sizes
from edgekit.graph.training_mode import require_inference
from edgekit.model import Model, ValueSpec
from edgekit.packaging.candidates import Choice, Fates
from edgekit.packaging.device_sizes import fixed_for, held_sizes, require_one_size, told_by_samples
from edgekit.packaging.float_form import AUTO, FLOAT32
from edgekit.packaging.forms import Forms, HeldTo
from edgekit.packaging.walk import Walk
from edgekit.preprocessing import Preprocessing, resolve_preprocessing
from edgekit.progress import Progress
from edgekit.registry import find_profile, find_witness, installed_rewrites
from edgekit.rewrites.adaptation import Adapter
from edgekit.stages.bench import Bench, Measured
from edgekit.stages.bundle import Facts, FurtherBuild, WriteBundle
from edgekit.stages.layers import MeasureLayers
from edgekit.stages.load import Load
from edgekit.stages.precheck import PreCheck
from edgekit.stages.quantize import NONE, Quantize, Quantized, refused, require_scheme
from edgekit.stages.random_inputs import RandomInputs
from edgekit.stages.sample_runs import require_runs
from edgekit.stages.simplify import Simplify
from edgekit.stages.take_branch import TakeBranch, needs_branch, sampled_choices
from edgekit.stages.testify import Testify
from edgekit.stages.verify import Verified
from edgekit.stages.words_as_numbers import WordsAsNumbers, needs_numbers
from edgekit.suggestions import near_names
from edgekit.target import BuildOptions, Profile, Target
from edgekit.witness import Witness

EXAMPLES = 2
"""How many of the samples a target gets to decide by."""
SEEDED_SAMPLES = 4
"""How many random inputs a model is verified on where there is no data."""

PRECISIONS = (AUTO, FLOAT32, "float16")


@dataclass(frozen=True)
class PackageRequest:
    """What to package, and how."""

    model: Path
    target: str
    """Name of a device profile."""
    output: Path
    """The bundle's folder."""
    name: str | None = None
    """What the bundle calls itself; the model file's stem where nothing is said."""
    data: Path | None = None
    """Samples to calibrate and verify on."""
    verify_data: Path | None = None
    """Samples to verify on in place of those."""
    quantize: str | None = None
    """None: ``auto`` with data, ``none`` without."""
    quantizer: str | None = None
    """The name of the quantizer; None: the one that :func:`edgekit.registry.installed_quantizer` prefers."""
    like: Choice | None = None
    """What a quantizer that goes by times chose before, to be chosen again; None: whatever is best now."""
    max_drop: float | None = None
    floor_db: float | None = None
    """The SQNR in dB that outputs have to reach over all samples; None for what suits the form that is built."""
    accept: bool = False
    """Whether a model that misses its floors ships, marked as such."""
    smallest: bool = False
    """Whether the smallest model that holds the budget is wanted, rather than the fastest."""
    max_bytes: int | None = None
    """What the built model may take; None where any size will do."""
    instruction_sets: tuple[str, ...] | None = None
    """What it has to hold its floors with; None: the sets of the profile that this processor executes itself."""
    evaluation: Evaluation | None = None
    """The project's own measure of quality; see :mod:`edgekit.comparison.custom_metric`."""
    precision: str = "auto"
    shapes: ShapeRequest = field(default_factory=ShapeRequest)
    labels: Path | None = None
    """File with a class name a line."""
    preprocessing: Preprocessing | None = None
    shares_preprocessing: bool = False
    """Whether it is declared for several models: one that it does not fit goes without it, where no sample needs it."""
    outputs: DeclaredOutputs | None = None
    """What the outputs tell; None: as it is recognised."""
    states: Mapping[str, str] = field(default_factory=dict)
    """Inputs that the built model is to keep from one run to the next, each with the output that replaces it."""
    target_options: Mapping[str, str] = field(default_factory=dict)
    """Options of the targets' own."""
    also: tuple[str, ...] = ()
    """Further device profiles: the bundle holds a build for each beside the first, and the device takes its own."""
    witness: str | None = None
    """An installed witness that is to execute what was built, where it can, and to agree."""

    @property
    def is_sized(self) -> bool:
        """Whether it is the size that counts, and not the speed."""
        return self.smallest or self.max_bytes is not None

    @property
    def scheme(self) -> str:
        """The quantization scheme."""
        if self.quantize is not None:
            return self.quantize
        return NONE if self.data is None or self.states else "auto"

    def options(self) -> dict[str, Any]:
        """The manifest's ``options``."""
        return {
            "quantize": self.scheme,
            "quantizer": self.quantizer,
            "max_drop": self.max_drop,
            "floor_db": self.floor_db,
            "accept": self.accept,
            "smallest": self.smallest,
            "max_bytes": self.max_bytes,
            "instruction_sets": None if self.instruction_sets is None else list(self.instruction_sets),
            "metric": None if self.evaluation is None else self.evaluation.name,
            "precision": self.precision,
            **self.shapes.as_record(),
            "outputs": None if self.outputs is None else self.outputs.as_record(),
            "states": dict(self.states),
            "target": dict(self.target_options),
            "also": list(self.also),
            "witness": self.witness,
        }

    def profiles(self) -> list[tuple[Target, Profile]]:
        """The targets and profiles to build for, the main one first.

        Raises:
            InputError: There is none of that name, or one comes twice.
        """
        found = [find_profile(self.target)]
        for name in self.also:
            target, profile = find_profile(name, flag="--also")
            if profile.name in {other.name for _, other in found}:
                raise InputError("is there already", subject=f"--also {name}", expected="another device profile")
            found.append((target, profile))
        return found

    def precisions(self, target: Target, profile: Profile) -> tuple[Sequence[str], Sequence[str]]:
        """In which precisions a float model is tried in turn, and the rest of a quantized one."""
        automatic = self.precision == AUTO
        if self.scheme == "auto":
            return target.float_precisions(profile) if automatic else (self.precision,), (self.precision,)
        turns = (AUTO, FLOAT32) if automatic else (self.precision,)
        return (turns, ()) if self.scheme == NONE else ((), turns)

    def fingerprint(self) -> str:
        """A hash over all that the bundle depends on; see :mod:`edgekit.fingerprint`.

        Raises:
            InputError: The model or a file of its data is missing.
        """
        files = {f"model/{file.name}": file for file in model_files(self.model)}
        for key, folder in (("data", self.data), ("verify_data", self.verify_data)):
            files |= {f"{key}/{name}": file for name, file in (data_files(folder) if folder else {}).items()}
        if self.labels is not None:
            files["labels"] = self.labels
        if self.evaluation is not None and self.evaluation.file is not None:
            files["metric"] = self.evaluation.file
        declared = None if self.preprocessing is None else self.preprocessing.as_record()
        named = [[target.name, profile.name] for target, profile in self.profiles()]
        return fingerprint(files, {**self.options(), "name": self.name, "targets": named, "preprocessing": declared})


def package(request: PackageRequest, progress: Progress, executor: Executor | None = None) -> Bundle:
    """Packages a model, and proves that the bundle computes what the model computes.

    What can be refused without work is refused before it. The bundle's name is not touched until the bundle is whole.

    Args:
        request: What to package, and how.
        progress: Told of the stages.
        executor: Evaluates a quantizer's candidates in other processes; None evaluates them in this one.

    Raises:
        InputError: The request does not fit, or the output cannot be written.
        RequirementError: Operators are missing, or the accuracy is under the floor.
    """
    (target, profile), *others = profiles = request.profiles()
    for one in profiles:
        _require_fitting(request, *one)
    require_options(request.target_options, *(known for known, _ in profiles))
    if request.precision not in PRECISIONS:
        raise InputError(
            "unknown type", subject="--precision", expected=" | ".join(PRECISIONS), found=request.precision
        )
    for known, _ in profiles:
        known.require_options(BuildOptions(options=_own(request, known)), None)
    witness = None if request.witness is None else find_witness(request.witness)
    class_names = () if request.labels is None else read_class_names(request.labels)
    walk, simplify, adapter = Walk(progress), Simplify(), Adapter(installed_rewrites())
    require_replaceable(request.output)
    with atomic_directory(request.output, what="bundle", may_replace=is_bundle) as folder:
        folders = request.data, request.verify_data
        for given in folders:
            if given is not None:
                require_sample_files(given)
        sampled = sampled_shapes(*folders)
        loaded = walk.run_stage(Load(sampled.names), request.model).model
        require_inference(loaded)
        if request.labels is not None:
            walk.hold_class_names(class_names, request.labels, loaded)
        loaded = replace(loaded, class_names=class_names or loaded.class_names).with_outputs(request.outputs)
        sampled = sampled.for_inputs(loaded.inputs)
        if not sampled.count:
            sampled = replace(sampled, picture=picture_size(loaded.inputs, request.preprocessing, *folders))
        require_runs(loaded, folders, request.shapes, every=held_sizes(profiles) is Holds.ANY)
        loaded = told_by_samples(loaded, request.shapes, sampled, held_sizes(profiles), walk, *folders)
        with_sizes = fixed_for(profiles, loaded, request.shapes, sampled, walk, simplify, adapter)
        fixed, other_sizes = with_sizes.model, with_sizes.left_out.files
        if draws_numbers(fixed):
            fixed = walk.run_stage(RandomInputs(), fixed).model
        if needs_numbers(fixed, profiles):
            fixed = walk.run_stage(WordsAsNumbers(sampled.without(other_sizes)), fixed).model
        if needs_branch(fixed, profiles):
            choices = sampled_choices(fixed, request.data, request.verify_data)
            fixed = walk.run_stage(TakeBranch(choices), fixed).model
        if with_sizes.device is not Holds.ANY:
            require_one_size(fixed, sampled.without(other_sizes), with_sizes.device)
        left_out = {spec.name for spec in loaded.inputs} - {spec.name for spec in fixed.inputs}
        fixed = with_states(fixed, request.states)
        if fed := sorted(request.states.keys() & {name for shapes in sampled.each for name in shapes}):
            walk.warn(
                f"{', '.join(map(repr, fed))} in the samples {'is' if len(fed) == 1 else 'are'} not used: "
                "the built model keeps states itself, from zero on"
            )
            left_out |= set(fed)
        original = loaded if not fixed.states and _takes_the_same(loaded, fixed) else fixed
        if request.labels is not None:
            check_class_names(class_names, request.labels, fixed.outputs, fixed.fed_inputs)
        class_names = class_names or fixed.class_names
        at_defaults = at_sizes(fixed.fed_inputs, defaults(fixed.open_dims))
        media = not sampled.count and folders != (None, None)
        preprocessing = _fitting_preprocessing(request, at_defaults, walk, media=media)
        preprocessing = preprocessing or stated.preprocessing(fixed.metadata, at_defaults)
        options = BuildOptions(
            request.precision, _own(request, target), labels=class_names, preprocessing=preprocessing
        )
        for known, _ in profiles:
            known.require_options(replace(options, options=_own(request, known)), fixed)
        calibration, verification = _samples(request, fixed, preprocessing, class_names, left_out, other_sizes)
        options = replace(options, examples=tuple(_examples(original, verification)), progress=progress.step)
        for warning in scattered_twice(original, options.examples if folders != (None, None) else ()):
            walk.warn(warning)
        require_class_output(fixed)
        ambiguous = ambiguity(fixed, labelled=verification.has_labels)
        if ambiguous is not None:
            walk.warn(ambiguous)
        simplified = walk.run_stage(simplify, fixed).model
        simplified = walk.run_stage(PreCheck(target, profile, adapter), simplified).model
        quantize = Quantize(
            request.scheme,
            target,
            profile,
            options,
            calibration,
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
        quantized = walk.run_stage(quantize, simplified, Quantized)
        if request.like is not None and request.like.in_float:
            quantized = quantized.in_float()
        fates = Fates()
        fates.measured(quantized.record)
        held_to = HeldTo(
            original,
            verification,
            calibration,
            request.max_drop,
            request.floor_db,
            request.evaluation,
            request.instruction_sets,
            request.max_bytes,
            accept=request.accept,
            any_speed=request.is_sized or request.like is not None,
            sizes_of_samples=not request.shapes.open_dims,
        )
        forms = Forms(walk, target, profile, folder, options, held_to, request.scheme)
        floats, others_of_quantized = request.precisions(target, profile)
        if request.like is not None:
            floats = request.like.first(floats)
        verified = forms.first_that_holds(quantized, (floats, others_of_quantized), fates)
        testified = _testified(walk, verified, witness, verification)
        further = [
            _built_further(*other, forms.shipped, request, folder, options, held_to, witness, progress)
            for other in others
        ]
        if witness is not None and not (testified or any(build.testified for build in further)):
            raise InputError(
                "the witness does not execute such models",
                subject=f"--witness {witness.name}",
                found=", ".join(build.artifact.main.name for build in (verified, *(one.verified for one in further))),
            )
        measured = walk.run_stage(Bench(original, profile, verification, progress.step), verified, Measured)
        measured = walk.run_stage(MeasureLayers(fixed, verification), measured, Measured)
        facts = Facts(
            request.name or loaded.name,
            request.model,
            request.fingerprint(),
            request.options(),
            preprocessing,
            class_names,
            fates.as_record(),
            _classes(original, verified, verification),
        )
        walk.run_stage(WriteBundle(folder, target, profile, facts, verification, walk.records, further), measured)
    return read_bundle(request.output)


def _classes(original: Model, verified: Verified, samples: Samples) -> Classes | None:
    """What tells the class, where classes have names, samples labels, or the user says so."""
    if not (samples.has_labels or original.class_choice != ClassChoice()):
        return None
    restart(verified.reference)
    return classes_of(original, [verified.reference.run(sample.feeds) for sample in islice(samples, SEEN)])


def require_replaceable(output: Path) -> None:
    """Checks that nothing of the user's would go with a bundle that is there already.

    Raises:
        InputError: The bundle's folder holds files that EdgeKit did not put there.
    """
    foreign = foreign_files(output) if is_bundle(output) else []
    if foreign:
        raise InputError(
            "holds files that are not of the bundle, which would be lost",
            subject=output,
            found=", ".join(foreign[:5]) + (f" and {len(foreign) - 5} more" if len(foreign) > 5 else ""),
            hint="move them elsewhere, or choose another name with -o",
        )


def require_options(options: Mapping[str, str], *targets: Target) -> None:
    """Checks the names of the targets' own options.

    Raises:
        InputError: None of the targets has one of that name.
    """
    known = {name: what for target in targets for name, what in target.options.items()}
    for name in options:
        if name not in known:
            verb = "has" if len(targets) == 1 else "have"
            raise InputError(
                f"target {' and '.join(target.name for target in targets)} {verb} no such option",
                subject=f"--option {name}",
                expected=near_names(name, known) if known else "no options",
                hint="`edgekit targets --json` tells what each does" if known else None,
            )


def _own(request: PackageRequest, target: Target) -> dict[str, str]:
    """The options that are the target's."""
    return {name: value for name, value in request.target_options.items() if name in target.options}


def _require_fitting(request: PackageRequest, target: Target, profile: Profile) -> None:
    """Checks what can be told of a profile without work.

    Raises:
        InputError: The request does not fit it.
    """
    target.require_installed(profile)
    require_scheme(
        request.scheme,
        target.weight_schemes(profile),
        available=request.data is not None,
        refused=refused(target, profile),
        quantizer=request.quantizer,
    )
    _require_searched(request)
    require_open_dimensions(request.shapes, target, profile)
    _require_states(request, target, profile)
    require_executable(request.instruction_sets, target)


def _fitting_preprocessing(
    request: PackageRequest, inputs: tuple[ValueSpec, ...], walk: Walk, *, media: bool
) -> Preprocessing | None:
    """The preprocessing with all that it leaves out; None where none is declared, or where it is for other models.

    Args:
        request: What was declared.
        inputs: The model's inputs, shapes fixed.
        walk: Told where what is declared for several models does not fit this one.
        media: Whether samples are pictures or sounds, which nothing else makes the input of.

    Raises:
        InputError: It does not fit the model.
    """
    try:
        require_size(inputs, request.preprocessing, request.data, request.verify_data)
        return resolve_preprocessing(request.preprocessing, inputs)
    except InputError as error:
        if media or not request.shares_preprocessing:
            raise
        text = error.message if error.expected is None else f"{error.message} (expected: {error.expected})"
        walk.warn(
            f"[preprocessing] is left out, for no sample is a picture or a sound: {text}; "
            "preprocessing = false in the bundle's table says that it has none"
        )
        return None


def _require_searched(request: PackageRequest) -> None:
    """Checks that a size that is asked for is searched; one that is the most alone may be of any scheme that is named.

    Raises:
        InputError: It is not.
    """
    searched = request.scheme == "auto" and request.data is not None
    only_checked = not request.smallest and (request.quantize is not None or bool(request.states))
    if not request.is_sized or searched or only_checked:
        return
    raise InputError(
        "sizes are searched with samples, by the scheme auto",
        subject="--smallest" if request.smallest else "--max-size",
        expected="--data DIR, and no other scheme",
        found="no samples" if request.quantize in (None, "auto") and request.data is None else request.scheme,
    )


def _built_further(
    target: Target,
    profile: Profile,
    form: Quantized,
    request: PackageRequest,
    folder: Path,
    options: BuildOptions,
    held_to: HeldTo,
    witness: Witness | None,
    progress: Progress,
) -> FurtherBuild:
    """The form that ships, built and verified for another device in a folder of its own beside the first build.

    Raises:
        RequirementError: It cannot be built, or is not accurate enough.
    """
    place = folder / profile.name
    place.mkdir()
    walk, fates = Walk(progress), Fates()
    own = _own(request, target)
    forms = Forms(walk, target, profile, place, replace(options, options=own), held_to, request.scheme, others=True)
    verified = forms.first_that_holds(form, request.precisions(target, profile), fates)
    testified = _testified(walk, verified, witness, held_to.samples)
    return FurtherBuild(target, profile, verified, fates.as_record(), walk.records, testified)


def _testified(walk: Walk, verified: Verified, witness: Witness | None, samples: Samples) -> bool:
    """Whether there is a witness that executes what was built; if so, it agreed."""
    if witness is None or not witness.takes(verified.artifact.main):
        return False
    walk.run_stage(Testify(witness, samples), verified)
    return True


def require_open_dimensions(shapes: ShapeRequest, target: Target, profile: Profile) -> None:
    """Checks that the target takes dimensions of several sizes, where some are asked for.

    Raises:
        InputError: It does not.
    """
    if shapes.open_dims and not target.takes_open_dimensions(profile):
        name, sizes = next(iter(shapes.open_dims.items()))
        raise InputError(
            f"{profile.name} takes fixed shapes only",
            subject=f"--dim {name}={written(sizes)}",
            expected="one size",
            hint=f"fix it with --dim {name}={sizes[0]}, or make a bundle for each size",
        )


def _require_states(request: PackageRequest, target: Target, profile: Profile) -> None:
    """Checks that states can be kept, where some are asked for.

    Raises:
        InputError: They cannot.
    """
    if not request.states:
        return
    flag = "--state " + next("=".join(pair) for pair in request.states.items())
    if not target.takes_states(profile):
        raise InputError(
            f"{profile.name} has no states",
            subject=flag,
            hint="leave --state out: the app then feeds the states, as the original model has it",
        )
    own = target.weight_schemes(profile)
    if request.scheme not in (NONE, *own):
        raise InputError(
            "a model with states cannot be calibrated: the samples hold no states",
            subject=f"--quantize {request.scheme}",
            expected=" | ".join((NONE, *own)),
            hint=f"{', '.join(own)}: these store weights alone, which needs no samples"
            if own
            else "leave --state out: the app then feeds the states, and samples of all inputs calibrate the model",
        )


def _takes_the_same(loaded: Model, fixed: Model) -> bool:
    """Whether the model takes, as it was loaded, inputs of the types and of the shapes that were fixed."""
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
    preprocessing: Preprocessing | None,
    class_names: tuple[str, ...],
    left_out: Collection[str],
    without: Collection[Path],
) -> tuple[Samples | None, Samples]:
    """The samples to calibrate on, if any, and those to verify on."""

    def opened(folder: Path) -> Samples:
        return open_samples(
            folder, model.fed_inputs, preprocessing, class_names, model.open_dims, left_out, model.nan_inputs, without
        )

    calibration = None if request.data is None else opened(request.data)
    if request.verify_data is not None:
        return calibration, opened(request.verify_data)
    return calibration, calibration or SeededSamples(
        model, SEEDED_STEPS if model.states else SEEDED_SAMPLES, preprocessing
    )


def _examples(original: Model, samples: Samples) -> Iterator[Mapping[str, np.ndarray]]:
    """The first samples, completed by states as they are in a sequence."""
    first = (sample.feeds for sample in islice(samples, EXAMPLES))
    if not original.states:
        yield from first
        return
    reference = FedBack(Reference(original), original)
    for feeds in first:
        yield reference.completed(feeds)
        reference.run(feeds)
