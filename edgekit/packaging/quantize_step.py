"""Quantization of a model file, as a step of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgekit.comparison.custom_metric import Evaluation
from edgekit.data import stated
from edgekit.data.labels import check_class_names, read_class_names
from edgekit.data.media_sizes import media_size
from edgekit.data.picture_sizes import require_size
from edgekit.data.sample_lists import SampleList
from edgekit.data.sampled_shapes import SampledShapes, sampled_shapes
from edgekit.data.samples import Samples, open_samples, require_declaration, require_sample_files
from edgekit.data.tables import Table
from edgekit.devices.instruction_set import cannot_execute, held_here, require_executable
from edgekit.errors import InputError
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.features.dimensions import defaults
from edgekit.files.atomic import require_another_file, require_writable
from edgekit.files.bundle_folder import require_outside_bundles
from edgekit.files.utf8_names import require_name_for_libraries
from edgekit.fingerprint import model_files
from edgekit.graph.random_inputs import draws_numbers
from edgekit.graph.reading.onnx_file import require_place_for_model, write_model
from edgekit.graph.sizes.default_sizes import AcceptedSizes
from edgekit.graph.sizes.shape_request import ShapeRequest, at_sizes
from edgekit.graph.training_mode import require_inference
from edgekit.model import Model
from edgekit.packaging.candidates import Choice
from edgekit.packaging.device_sizes import fix_shapes_at, held_sizes, require_one_size, with_sizes_of_samples
from edgekit.packaging.stage_runner import StageRunner
from edgekit.packaging.tables import sample_folders
from edgekit.preprocessing import Preprocessing, resolve_preprocessing
from edgekit.progress import Progress
from edgekit.quantizer import BudgetError, QuantizationRequest, require_search_of_sizes
from edgekit.registry import find_profile, installed_quantizer, installed_rewrites
from edgekit.rewrites.adaptation import Adapter
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load
from edgekit.stages.locales import require_locales
from edgekit.stages.precheck import PreCheck
from edgekit.stages.quantize import NONE, Quantize, refused, require_scheme
from edgekit.stages.random_inputs import RandomInputs
from edgekit.stages.sample_runs import require_runs
from edgekit.stages.simplify import Simplify
from edgekit.stages.words_as_numbers import WordsAsNumbers, needs_numbers
from edgekit.target import BuildOptions


@dataclass(frozen=True)
class QuantizedModel:
    """A quantized model file."""

    output: Path
    record: Mapping[str, Any]
    """What the quantizer records: the scheme, the candidates that it measured (``curve``), the layers."""
    bytes_before: int
    """Bytes of the float model's files."""
    bytes: int
    weight_bytes_before: int
    weight_bytes: int
    warnings: tuple[str, ...] = ()

    @property
    def scheme(self) -> str:
        """The scheme that was used."""
        return str(self.record["scheme"])

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "output": str(self.output),
            **self.record,
            "bytes_before": self.bytes_before,
            "bytes": self.bytes,
            "weight_bytes_before": self.weight_bytes_before,
            "weight_bytes": self.weight_bytes,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class QuantizeOrder:
    """What to quantize, and how."""

    model: Path
    output: Path
    data: Path | None = None
    """Samples to calibrate on."""
    label: str | None = None
    """The column that holds the class, if samples are the rows of a table."""
    tables: Mapping[Path, Table | SampleList] = field(default_factory=dict)
    """Tables in memory, by the paths that stand for them as samples."""
    target: str | None = None
    """The device profile to quantize for and to score candidates on; None: quantize as suits most devices."""
    scheme: str = "auto"
    quantizer: str | None = None
    """Name of the quantizer; None: the one that :func:`edgekit.registry.installed_quantizer` prefers."""
    max_drop: float | None = None
    evaluation: Evaluation | None = None
    shapes: ShapeRequest = field(default_factory=ShapeRequest)
    preprocessing: Preprocessing | None = None
    """How pictures or sounds become the model's input, as it was declared."""
    outputs: DeclaredOutputs | None = None
    """What the outputs mean; None: what is recognized from the model."""
    smallest: bool = False
    """Whether the smallest model that holds the budget is wanted, rather than the fastest."""
    max_bytes: int | None = None
    """Most bytes of the model as its target builds it; None for any size."""
    labels: Path | None = None
    """File with a class name a line; None: labels are numbers, or sub-folders numbered by the order of their names."""
    instruction_sets: tuple[str, ...] | None = None
    """The instruction sets with which candidates have to hold the budget; None: those of the target."""
    like: Choice | None = None
    """The choice of an earlier bundle, whose candidate is written; None for the best candidate."""
    explain: bool = False
    """Whether to measure more, only for the record, such as what it costs to keep sums from saturating."""


def quantize_model(order: QuantizeOrder, progress: Progress, executor: Executor | None = None) -> QuantizedModel:
    """Quantizes a model and writes it.

    Args:
        order: What to quantize, and how.
        progress: Told of the stages.
        executor: Evaluates candidates in other processes; None evaluates them in this one.

    Raises:
        InputError: The order does not fit, or the output cannot be written.
        edgekit.quantizer.BudgetError: Nothing holds the accuracy budget.
    """
    if order.scheme == NONE:
        raise InputError("would leave the model as it is", subject=f"--scheme {NONE}")
    if order.model.exists():
        require_another_file(order.output, order.model, what="the float model")
    require_outside_bundles(order.output)
    require_name_for_libraries(order.output)
    require_place_for_model(order.output)
    require_writable(order.output)
    if order.instruction_sets is not None:
        if order.target is None:
            raise InputError(
                "needs a target whose runtime can be restricted to these instruction sets",
                subject="--isa",
                hint="give --target NAME",
            )
        require_executable(order.instruction_sets, *find_profile(order.target))
    reasons = {} if order.target is None else _refused_schemes(order.target)
    require_scheme(
        order.scheme,
        available=order.data is not None,
        refused=reasons,
        option="--scheme",
        quantizer=order.quantizer,
        may_stay_float=False,
    )
    if order.smallest or order.max_bytes is not None:
        sampled = order.data is not None
        require_search_of_sizes(order.scheme, sampled=sampled, smallest=order.smallest, max_bytes=order.max_bytes)
    stages = StageRunner(progress)
    if order.like is not None:
        _hold_choice(order.like, order, stages)
    with sample_folders(order.model, (order.data,), order.tables, order.label, order.labels, stages.warn) as (data,):
        return _quantized_on(replace(order, data=data), stages, progress, executor)


def _hold_choice(like: Choice, order: QuantizeOrder, stages: StageRunner) -> None:
    """Checks that an earlier choice fits the order.

    Raises:
        InputError: Nothing was chosen, or the choice was among the candidates of another target.
    """
    if like.candidate is None:
        raise InputError("is a bundle for which no candidate was chosen", subject="--like", hint="leave --like out")
    like.require_target(None if order.target is None else find_profile(order.target)[0].name)
    if (warning := like.of_another_model(order.model)) is not None:
        stages.warn(warning)


def _quantized_on(
    order: QuantizeOrder, stages: StageRunner, progress: Progress, executor: Executor | None
) -> QuantizedModel:
    """The model, quantized on a folder of samples, and written."""
    if order.data is not None:
        require_sample_files(order.data)
    sampled = None if order.data is None else sampled_shapes(order.data)
    fixed, other_sizes = _fixed_for_samples(stages, order, sampled)
    if draws_numbers(fixed):
        fixed = stages.run_stage(RandomInputs(), fixed).model
    if order.target is not None and needs_numbers(fixed, [find_profile(order.target)]):
        words = WordsAsNumbers(None if sampled is None else sampled.without(other_sizes))
        fixed = stages.run_stage(words, fixed).model
    fixed = fixed.with_outputs(order.outputs)
    samples = None if order.data is None else _samples_for(fixed, order, order.data, sampled, other_sizes)
    simplified = stages.run_stage(Simplify(), fixed).model
    if order.target is not None:
        adapter = Adapter(installed_rewrites())
        simplified = stages.run_stage(PreCheck(*find_profile(order.target), adapter), simplified).model
    before = simplified.weight_bytes
    model, record = _quantized(
        stages,
        QuantizationRequest(
            model=simplified,
            scheme=order.scheme,
            samples=samples,
            max_drop=order.max_drop,
            evaluation=order.evaluation,
            smallest=order.smallest,
            max_bytes=order.max_bytes,
            progress=progress.step,
            executor=executor,
            choice=None if order.like is None else order.like.candidate,
            explain=order.explain,
        ),
        order,
        progress,
    )
    for remark in record.get("left_to_verify", ()):
        stages.warn(remark)
    _warn_of_sets(stages, order, record)
    write_model(model, order.output)
    return QuantizedModel(
        order.output,
        record,
        bytes_before=_bytes(order.model),
        bytes=_bytes(order.output),
        weight_bytes_before=before,
        weight_bytes=model.weight_bytes,
        warnings=tuple(stages.warnings),
    )


def _samples_for(
    fixed: Model, order: QuantizeOrder, data: Path, sampled: SampledShapes | None, other_sizes: Collection[Path]
) -> Samples:
    """The samples as inputs of the model: arrays as they are, pictures and sounds preprocessed.

    Args:
        fixed: The model, with the sizes that samples get.
        order: How pictures or sounds become inputs, and what labels are.
        data: The folder of the samples.
        sampled: The shapes of the samples that are arrays.
        other_sizes: Files of samples that the model does not take.
    """
    at_defaults = at_sizes(fixed.inputs, defaults(fixed.open_dims))
    preprocessing = None
    if not _holds_arrays(sampled):
        require_size(at_defaults, order.preprocessing, data)
        preprocessing = resolve_preprocessing(order.preprocessing, at_defaults)
        preprocessing = preprocessing or stated.preprocessing(fixed.metadata, at_defaults)
    if order.labels is not None:
        check_class_names(fixed.class_names, order.labels, fixed.outputs, fixed.fed_inputs)
    return open_samples(
        data,
        fixed.inputs,
        preprocessing,
        fixed.class_names,
        fixed.open_dims,
        nan_inputs=fixed.nan_inputs,
        without=other_sizes,
    )


def _warn_of_sets(stages: StageRunner, order: QuantizeOrder, record: Mapping[str, Any]) -> None:
    """Warns of instruction sets that were asked for and with which candidates were not judged."""
    if order.target is None or record["scheme"] == NONE:
        return
    plugin, profile = find_profile(order.target)
    for name in order.instruction_sets or ():
        if order.data is None:
            stages.warn(f"not judged with {name}: there are no samples to execute it on; give some with --data")
        elif held_here(plugin, profile, name) is None:
            lacking = cannot_execute(plugin, profile, name)
            emulated = f"only an emulator executes it here: `edgekit package --isa {name}` verifies the bundle with it"
            stages.warn(f"not judged with {name}: {emulated if lacking is None else lacking.message}")


def _holds_arrays(sampled: SampledShapes | None) -> bool:
    """Whether samples are arrays, not pictures or sounds."""
    return sampled is not None and sampled.count > 0


def _fixed_for_samples(
    stages: StageRunner, order: QuantizeOrder, sampled: SampledShapes | None
) -> tuple[Model, Collection[Path]]:
    """The model to quantize, and the files of samples that it does not take.

    Dimensions stay free if samples are arrays, and if the target, if any, takes any size. Otherwise they get sizes: a
    picture or a sound becomes an input of one shape, and a target that has to know sizes executes candidates.
    """
    loaded = stages.run_stage(Load(() if sampled is None else sampled.names), order.model).model
    require_inference(loaded)
    require_locales(loaded)
    if sampled is None:
        return stages.run_stage(FixShapes(order.shapes), loaded).model, ()
    if order.labels is not None:
        class_names = read_class_names(order.labels)
        stages.hold_class_names(class_names, order.labels, loaded)
        loaded = replace(loaded, class_names=class_names)
    sampled = sampled.for_inputs(loaded.inputs)
    if not _holds_arrays(sampled):
        if order.preprocessing is None and stated.task(loaded.metadata) is None:
            require_declaration(loaded.inputs, order.data)
        sampled = replace(sampled, media=media_size(loaded.inputs, order.preprocessing, order.data))
    held = AcceptedSizes.ANY if order.target is None else held_sizes([find_profile(order.target)])
    require_runs(loaded, [order.data], order.shapes, every=held is AcceptedSizes.ANY)
    loaded = with_sizes_of_samples(loaded, order.shapes, sampled, held, stages, order.data)
    completed = held is not AcceptedSizes.ANY or not _holds_arrays(sampled)
    stage, left_out = fix_shapes_at(held, loaded, order.shapes, sampled, defaults=completed)
    fixed = stages.run_stage(stage, loaded).model
    if held is not AcceptedSizes.ANY:
        require_one_size(fixed, sampled.without(left_out.files), held)
    return fixed, left_out.files


def _refused_schemes(target: str) -> Mapping[str, str]:
    """The schemes that ``edgekit quantize`` cannot apply for a target, each with the reason."""
    plugin, profile = find_profile(target)
    why = f"{plugin.name} stores weights in this form only when it builds: use `edgekit package` with this scheme"
    return {**refused(plugin, profile), **dict.fromkeys(plugin.weight_schemes(profile), why)}


def _quantized(
    stages: StageRunner, request: QuantizationRequest, order: QuantizeOrder, progress: Progress
) -> tuple[Model, Mapping[str, Any]]:
    """The quantized model and the quantizer's record, for the target if one is named."""
    if order.target is not None:
        stage = Quantize(
            request.scheme,
            *find_profile(order.target),
            BuildOptions(onnx_ships=True),
            request.samples,
            request.max_drop,
            request.progress,
            request.evaluation,
            request.executor,
            order.quantizer,
            order.instruction_sets,
            smallest=order.smallest,
            max_bytes=order.max_bytes,
            choice=None if order.like is None else order.like.candidate,
            explain=order.explain,
        )
        result = stages.run_stage(stage, request.model)
        return result.model, result.record
    try:
        with progress.stage(Quantize.name):
            found = installed_quantizer(order.quantizer).quantize(request)
    except BudgetError as error:
        for warning in error.warnings:
            progress.warn(warning)
        raise
    stages.keep(Quantize.name, found.record)
    for warning in found.record.get("warnings", ()):
        progress.warn(warning)
    return found.model, found.record


def _bytes(model: Path) -> int:
    """Bytes of the model's file and of the files that it keeps its tensors in."""
    return sum(file.stat().st_size for file in model_files(model))
