"""The corridor that a model walks down: from an ONNX file to a bundle, stage after stage."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from edgekit.atomic import atomic_directory
from edgekit.bundle import Bundle, foreign_files, is_bundle, read_bundle
from edgekit.candidates import (
    AUTO,
    FLOAT32,
    Candidate,
    Choice,
    Fates,
    FloatForm,
    candidates,
    first_that_holds,
    require_size,
)
from edgekit.comparison.custom_metric import Evaluation
from edgekit.data import stated
from edgekit.data.labels import check_class_names, read_class_names
from edgekit.data.samples import Samples, SeededSamples, open_samples
from edgekit.devices.instruction_set import require_executable
from edgekit.dimensions import defaults, written
from edgekit.errors import EdgeKitError, InputError
from edgekit.execution.recurrence import SEEDED_STEPS, FedBack, with_states
from edgekit.execution.reference import Reference
from edgekit.fingerprint import data_files, fingerprint, model_files
from edgekit.graph.shape_request import ShapeRequest, at_sizes
from edgekit.model import Model
from edgekit.preprocessing import Preprocessing, resolve_preprocessing
from edgekit.processes import supervision
from edgekit.progress import Progress
from edgekit.registry import find_profile
from edgekit.stages import Stage, StageResult
from edgekit.stages.bench import Bench, Measured
from edgekit.stages.build import Build, Built
from edgekit.stages.bundle import Facts, WriteBundle
from edgekit.stages.check import CheckOperators
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.instruction_sets import VerifyInstructionSets
from edgekit.stages.layers import MeasureLayers
from edgekit.stages.load import Load
from edgekit.stages.precheck import PreCheck
from edgekit.stages.quantize import NONE, Quantize, Quantized, refused, require_scheme
from edgekit.stages.simplify import Simplify
from edgekit.stages.verify import InaccurateError, Verified, Verify
from edgekit.target import BuildOptions, Profile, Target

EXAMPLES = 2
"""How many of the samples a target gets to decide by."""
MORE_EXAMPLES = 2
"""How often it decides once more, on the samples on which what it built is not accurate enough."""
SEEDED_SAMPLES = 4
"""How many random inputs a model is verified on where there is no data."""

PRECISIONS = (AUTO, FLOAT32, "float16")

Given = TypeVar("Given")
Result = TypeVar("Result", bound=StageResult)


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
    states: Mapping[str, str] = field(default_factory=dict)
    """Inputs that the built model is to keep from one run to the next, each with the output that replaces it."""
    target_options: Mapping[str, str] = field(default_factory=dict)
    """Options of the target's own."""

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
            "states": dict(self.states),
            "target": dict(self.target_options),
        }

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
        target, profile = find_profile(self.target)
        return fingerprint(
            files,
            {**self.options(), "name": self.name, "target": [target.name, profile.name], "preprocessing": declared},
        )


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
    target, profile = find_profile(request.target)
    own_schemes = target.weight_schemes(profile)
    require_scheme(
        request.scheme,
        own_schemes,
        available=request.data is not None,
        refused=refused(target, profile),
        quantizer=request.quantizer,
    )
    require_options(request.target_options, target)
    require_open_dimensions(request.shapes, target, profile)
    _require_states(request, target, profile)
    require_executable(request.instruction_sets, target)
    if request.precision not in PRECISIONS:
        raise InputError(
            "unknown type", subject="--precision", expected=" | ".join(PRECISIONS), found=request.precision
        )
    class_names = () if request.labels is None else read_class_names(request.labels)
    walk = Walk(progress)
    require_replaceable(request.output)
    with atomic_directory(request.output, what="bundle", may_replace=is_bundle) as folder:
        loaded = walk.run_stage(Load(), request.model).model
        fixed = walk.run_stage(FixShapes(request.shapes, defaults=True), loaded).model
        fixed = with_states(fixed, request.states)
        original = loaded if not fixed.states and _takes_the_same(loaded, fixed) else fixed
        if request.labels is not None:
            check_class_names(class_names, request.labels, fixed.outputs)
        class_names = class_names or fixed.class_names
        at_defaults = at_sizes(fixed.fed_inputs, defaults(fixed.open_dims))
        preprocessing = resolve_preprocessing(request.preprocessing, at_defaults)
        preprocessing = preprocessing or stated.preprocessing(fixed.metadata, at_defaults)
        options = BuildOptions(
            request.precision, request.target_options, labels=class_names, preprocessing=preprocessing
        )
        calibration, verification = _samples(request, fixed, preprocessing, class_names)
        options = replace(options, examples=tuple(_examples(original, verification)), progress=progress.step)
        simplified = walk.run_stage(Simplify(), fixed).model
        simplified = walk.run_stage(PreCheck(target, profile), simplified).model
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
        )
        quantized = walk.run_stage(quantize, simplified, Quantized)
        if request.like is not None and request.like.in_float:
            quantized = quantized.in_float()
        fates = Fates()
        fates.measured(quantized.record)
        tried: list[Quantized] = []

        def built_once(candidate: Candidate, options: BuildOptions) -> Verified:
            form = candidate.quantized
            if not any(form is other for other in tried):
                if tried:
                    walk.keep(Quantize.name, form.record)
                tried.append(form)
                walk.run_stage(CheckOperators(target, profile), form.model)
            compression = request.scheme if request.scheme in own_schemes else None
            asked = replace(options, precision=candidate.precision, compression=compression)
            build = Build(target, profile, asked, folder, quantized=form.quantized)
            built = walk.run_stage(build, form.model, Built)
            chosen_freely = request.scheme == "auto" and form.quantized
            of_float = FloatForm(form.of_float, target, profile, options)
            if request.max_bytes is not None:
                require_size(built, request.max_bytes)
            if chosen_freely:
                of_float.require_smaller(built)
            verify = Verify(
                original,
                target,
                profile,
                verification,
                request.max_drop,
                progress.step,
                calibrated_on_same=form.quantized and verification is calibration,
                evaluation=request.evaluation,
                floor_db=request.floor_db,
                accept=request.accept,
            )
            verified = walk.run_stage(verify, built, Verified)
            sets = VerifyInstructionSets(verify, target, profile, request.instruction_sets, verification, folder)
            if sets.counts(verified):
                verified = walk.run_stage(sets, verified, Verified)
            if chosen_freely and not request.is_sized and request.like is None:
                of_float.require_as_fast(verified.runner, verification)
            return verified

        def built_and_verified(candidate: Candidate) -> Verified:
            for_build = options
            for _ in range(MORE_EXAMPLES):
                try:
                    return built_once(candidate, for_build)
                except InaccurateError as error:
                    failing = tuple(_feeds_at(verification, error.worst_samples))
                    in_half = candidate.precision == AUTO and error.precision != FLOAT32 and not original.states
                    if not (target.goes_by_examples and in_half and not candidate.quantized.quantized and failing):
                        raise
                    for_build = replace(for_build, examples=(*failing, *for_build.examples))
                    fall_back(f"float16 is not accurate enough ({error.found}): decided once more on these samples")
            return built_once(candidate, for_build)

        def fall_back(why: str) -> None:
            walk.warn(why)
            _empty(folder)

        verified = first_that_holds(
            candidates(quantized, *_precisions(request, target, profile)),
            built_and_verified,
            fates,
            fall_back,
            whatever_fails=request.scheme == "auto",
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
        )
        walk.run_stage(WriteBundle(folder, target, profile, facts, verification, walk.records), measured)
    return read_bundle(request.output)


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


def require_options(options: Mapping[str, str], target: Target) -> None:
    """Checks the names of a target's own options.

    Raises:
        InputError: The target has none of that name.
    """
    for name in options:
        if name not in target.options:
            raise InputError(
                f"target {target.name} has no such option",
                subject=f"--option {name}",
                expected="; ".join(f"{known}: {what}" for known, what in target.options.items()) or "no options",
            )


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
    if request.scheme not in (NONE, *target.weight_schemes(profile)):
        raise InputError(
            "a model with states cannot be calibrated: the samples hold no states",
            subject=f"--quantize {request.scheme}",
            expected=" | ".join((NONE, *target.weight_schemes(profile))),
            hint="or quantize first, with `edgekit quantize` on samples of all inputs, and package what it writes",
        )


class Walk:
    """Runs stage after stage, tells of it, and keeps the records."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.records: list[dict[str, Any]] = []

    @property
    def warnings(self) -> list[str]:
        """All that the stages warned of."""
        return [warning for stage in self.records for warning in stage["record"].get("warnings", ())]

    @overload
    def run_stage(self, stage: Stage[Given], given: Given) -> StageResult: ...

    @overload
    def run_stage(self, stage: Stage[Given], given: Given, hands_on: type[Result]) -> Result: ...

    def run_stage(self, stage: Stage[Given], given: Given, hands_on: type[StageResult] = StageResult) -> StageResult:
        """Runs a stage, and gives what it hands on.

        Args:
            stage: The stage to run.
            given: What it starts from.
            hands_on: The class of what it hands on, where that holds more than a model and a record.
        """
        start = time.perf_counter()
        try:
            with self._progress.stage(stage.name):
                result = stage(given)
        except EdgeKitError as error:
            self.keep(stage.name, {"failed": error.as_record()}, time.perf_counter() - start)
            raise
        if not isinstance(result, hands_on):
            raise stage.broken(f"it handed on no {hands_on.__name__}")
        self.keep(stage.name, result.record, time.perf_counter() - start)
        if stage.name == Load.name:
            supervision.tell_model_bytes(result.record["bytes"])
        for warning in result.warnings:
            self._progress.warn(warning)
        return result

    def warn(self, text: str) -> None:
        """Adds a warning to the last stage's record, and tells of it."""
        record = self.records[-1]["record"]
        record["warnings"] = [*record.get("warnings", ()), text]
        self._progress.warn(text)

    def keep(self, stage: str, record: Mapping[str, Any], seconds: float = 0.0) -> None:
        """Adds a stage's record."""
        self.records.append({"name": stage, "seconds": round(seconds, 3), "record": dict(record)})


def _precisions(request: PackageRequest, target: Target, profile: Profile) -> tuple[Sequence[str], Sequence[str]]:
    """In which precisions a float model is tried in turn, and the rest of a quantized one."""
    automatic = request.precision == AUTO
    if request.scheme == "auto":
        return target.float_precisions(profile) if automatic else (request.precision,), (request.precision,)
    turns = (AUTO, FLOAT32) if automatic else (request.precision,)
    return (turns, ()) if request.scheme == NONE else ((), turns)


def _empty(folder: Path) -> None:
    """Removes what is in a folder."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _takes_the_same(loaded: Model, fixed: Model) -> bool:
    """Whether the model takes, as it was loaded, inputs of the shapes that were fixed."""
    return all(
        before.shape is not None
        and after.shape is not None
        and all(not isinstance(old, int) or old == new for old, new in zip(before.shape, after.shape, strict=True))
        for before, after in zip(loaded.inputs, fixed.inputs, strict=True)
    )


def _samples(
    request: PackageRequest, model: Model, preprocessing: Preprocessing | None, class_names: tuple[str, ...]
) -> tuple[Samples | None, Samples]:
    """The samples to calibrate on, if any, and those to verify on."""

    def opened(folder: Path) -> Samples:
        return open_samples(folder, model.fed_inputs, preprocessing, class_names, model.open_dims)

    calibration = None if request.data is None else opened(request.data)
    if request.verify_data is not None:
        return calibration, opened(request.verify_data)
    return calibration, calibration or SeededSamples(
        model, SEEDED_STEPS if model.states else SEEDED_SAMPLES, preprocessing
    )


def _feeds_at(samples: Samples, places: Collection[int]) -> Iterator[Mapping[str, np.ndarray]]:
    """What the samples at these places feed."""
    return (sample.feeds for place, sample in enumerate(samples) if place in places)


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
