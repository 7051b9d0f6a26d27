"""Single steps of packaging on a model file: inspect, fix, extract, check and quantize, each with what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from edgekit.comparison.custom_metric import Evaluation
from edgekit.data import stated
from edgekit.data.labels import check_class_names, read_class_names
from edgekit.data.sampled_shapes import SampledShapes, sampled_shapes
from edgekit.data.samples import open_samples
from edgekit.declared_outputs import DeclaredOutputs
from edgekit.devices.instruction_set import require_executable
from edgekit.dimensions import defaults
from edgekit.errors import InputError
from edgekit.fingerprint import model_files
from edgekit.graph.cost import cost, parameter_count
from edgekit.graph.default_sizes import Holds, SampledSizes
from edgekit.graph.extraction import extract_part
from edgekit.graph.onnx_file import write_model
from edgekit.graph.shape_request import ShapeRequest, at_sizes
from edgekit.graph.shapes import fold_shapes, infer_shapes
from edgekit.model import Dim, Model, ValueSpec, op_name
from edgekit.operators.support import OperatorSupport, summarize
from edgekit.pipeline import held_sizes, require_one_size
from edgekit.preprocessing import Preprocessing, resolve_preprocessing
from edgekit.progress import Progress
from edgekit.quantizer import QuantizationRequest
from edgekit.registry import find_profile, installed_quantizer, installed_rewrites
from edgekit.rewrites.adaptation import adapted
from edgekit.stages.fix_shapes import FixShapes, dynamic_dimensions
from edgekit.stages.load import Load
from edgekit.stages.quantize import NONE, Quantize, refused, require_scheme
from edgekit.stages.simplify import Simplify
from edgekit.stages.take_branch import TakeBranch, needs_branch
from edgekit.target import BuildOptions, NodeVerdict, Support
from edgekit.walk import Walk


@dataclass(frozen=True)
class DynamicDimension:
    """A dimension of an input that has no known size."""

    input: str
    axis: int
    dimension: Dim
    """Its name; None where it has none."""
    fix: str
    """The option of the command line that would fix it."""


@dataclass(frozen=True)
class Inspection:
    """What goes into a model, what comes out, and what it costs."""

    file: str
    bytes: int
    """Of the file and of the files that it keeps its tensors in."""
    sha256: str
    producer: str
    opset: int
    upgraded_from_opset: int | None
    """The file's operator set, where it was too old to work with; None where it is ``opset``."""
    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]
    dynamic_dimensions: tuple[DynamicDimension, ...]
    operators: Mapping[str, int]
    """Number of nodes by operator, the most frequent first."""
    parameters: int
    weight_bytes: int
    macs: int | None
    """Multiplications, each with its addition, of one run; None where shapes are not known."""
    uncounted_nodes: tuple[str, ...]
    """The nodes whose shapes are not known, so that their MACs are not."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the file states of itself, by key."""
    warnings: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        """Number of nodes, those of subgraphs counted."""
        return sum(self.operators.values())

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "file": self.file,
            "bytes": self.bytes,
            "sha256": self.sha256,
            "producer": self.producer,
            "opset": self.opset,
            "upgraded_from_opset": self.upgraded_from_opset,
            **features_record(self.inputs, self.outputs),
            "dynamic_dimensions": [asdict(dimension) for dimension in self.dynamic_dimensions],
            "nodes": self.nodes,
            "operators": dict(self.operators),
            "parameters": self.parameters,
            "weight_bytes": self.weight_bytes,
            "macs": self.macs,
            "uncounted_nodes": list(self.uncounted_nodes),
            "metadata": dict(self.metadata),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class FixedModel:
    """A model file whose dynamic dimensions got their sizes."""

    output: Path
    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]
    record: Mapping[str, Any]
    """What the stage did: the sizes that it put in, the dimensions that are still dynamic, the nodes that it folded."""
    warnings: tuple[str, ...] = ()

    @property
    def still_dynamic(self) -> tuple[DynamicDimension, ...]:
        """The dimensions that have no size yet."""
        return tuple(DynamicDimension(**dimension) for dimension in self.record["still_dynamic"])

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        features = features_record(self.inputs, self.outputs)
        return {"output": str(self.output), **self.record, **features, "warnings": list(self.warnings)}


@dataclass(frozen=True)
class ExtractedModel:
    """A model file that holds a part of another."""

    output: Path
    nodes: int
    nodes_before: int
    """Of the whole model."""
    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]
    warnings: tuple[str, ...] = ()

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "output": str(self.output),
            "nodes": self.nodes,
            "nodes_before": self.nodes_before,
            **features_record(self.inputs, self.outputs),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class OperatorCheck:
    """What becomes of each node of a model on a target."""

    model: Path
    target: str
    """The device profile."""
    verdicts: tuple[NodeVerdict, ...]
    """A verdict for each node of the model as it would be built."""
    support: OperatorSupport
    """How well the model fits the device's accelerator."""
    rewrites: Sequence[Mapping[str, Any]]
    """What was rewritten because the target refuses it, as plain data."""
    warnings: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether the target takes every node."""
        return not self.counts[Support.UNSUPPORTED]

    @property
    def counts(self) -> dict[Support, int]:
        """Number of nodes by verdict."""
        return {each: sum(verdict.support is each for verdict in self.verdicts) for each in Support}

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "model": str(self.model),
            "target": self.target,
            "supported": self.supported,
            **self.support.as_record(),
            "counts": {verdict.value: count for verdict, count in self.counts.items()},
            "nodes": [asdict(verdict) for verdict in self.verdicts],
            "rewrites": list(self.rewrites),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class QuantizedModel:
    """A quantized model file."""

    output: Path
    record: Mapping[str, Any]
    """What the quantizer tells: the scheme, the candidates that it measured (``curve``), the layers."""
    bytes_before: int
    """Of the float model's files."""
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
    target: str | None = None
    """The device profile to quantize for and to score candidates on; None: what suits most devices."""
    scheme: str = "auto"
    quantizer: str | None = None
    """Name of the quantizer; None: the one that :func:`edgekit.registry.installed_quantizer` prefers."""
    max_drop: float | None = None
    evaluation: Evaluation | None = None
    shapes: ShapeRequest = field(default_factory=ShapeRequest)
    preprocessing: Preprocessing | None = None
    """How pictures or sounds become the model's input, as it was declared."""
    outputs: DeclaredOutputs | None = None
    """What the outputs tell; None: as it is recognised."""
    smallest: bool = False
    """Whether the smallest model that holds the budget is wanted, rather than the fastest."""
    max_bytes: int | None = None
    """What the model may take, as its target builds it; None where any size will do."""
    labels: Path | None = None
    """File with a class name a line; None: labels are numbers, or what the folders' order says."""
    instruction_sets: tuple[str, ...] | None = None
    """With which candidates have to hold the budget; None: those of the target."""
    choice: str | None = None
    """The candidate to write, as an earlier record names it; None for the best one."""
    explain: bool = False
    """Whether more is measured for the record alone, such as what keeping sums from saturation costs."""


def inspect_model(model: Path, shapes: ShapeRequest, progress: Progress) -> Inspection:
    """Reads a model and counts what it holds and costs.

    Args:
        model: The ONNX file.
        shapes: Sizes of dynamic dimensions to count MACs with.
        progress: Told of the stages.

    Raises:
        InputError: The file is no usable ONNX model, or the shapes do not fit it.
    """
    walk = Walk(progress)
    loaded = walk.run_stage(Load(), model)
    shaped = (
        walk.run_stage(FixShapes(shapes), loaded.model).model
        if shapes
        else fold_shapes(infer_shapes(loaded.model, strict=False))
    )
    spent = cost(shaped)
    facts = ("file", "bytes", "sha256", "producer", "opset", "upgraded_from_opset")
    return Inspection(
        **{key: loaded.record[key] for key in facts},
        inputs=shaped.inputs,
        outputs=shaped.outputs,
        dynamic_dimensions=tuple(
            DynamicDimension(spec.name, axis, dim, flag) for spec, axis, dim, flag in dynamic_dimensions(shaped)
        ),
        operators=dict(Counter(op_name(node) for node in loaded.model.graph.all_nodes()).most_common()),
        parameters=parameter_count(loaded.model),
        weight_bytes=loaded.model.weight_bytes,
        macs=None if spent.uncounted else spent.macs,
        uncounted_nodes=tuple(spent.uncounted),
        metadata=dict(loaded.model.metadata),
        warnings=tuple(walk.warnings),
    )


def fix_model(model: Path, shapes: ShapeRequest, output: Path, progress: Progress) -> FixedModel:
    """Fixes dynamic dimensions and writes the model.

    Args:
        model: The ONNX file.
        shapes: The sizes.
        output: The ONNX file to write.
        progress: Told of the stages.

    Raises:
        InputError: Nothing is asked for, the shapes do not fit the model, or the output cannot be written.
    """
    walk = Walk(progress)
    loaded = walk.run_stage(Load(), model).model
    if not shapes:
        flags = dict.fromkeys(flag for *_, flag in dynamic_dimensions(loaded))
        raise InputError(
            "says nothing to fix",
            subject="edgekit fix",
            found="; ".join(str(spec) for spec in loaded.inputs),
            hint=f"give {' '.join(flags)}" if flags else "every input has a fixed shape already",
        )
    fixed = walk.run_stage(FixShapes(shapes), loaded)
    write_model(fixed.model, output)
    return FixedModel(output, fixed.model.inputs, fixed.model.outputs, fixed.record, tuple(walk.warnings))


def extract_model(
    model: Path, outputs: Sequence[str], inputs: Sequence[str], output: Path, progress: Progress
) -> ExtractedModel:
    """Cuts a part out of a model and writes it.

    Args:
        model: The ONNX file.
        outputs: The values to compute.
        inputs: The values to start from; none stands for the model's own inputs.
        output: The ONNX file to write.
        progress: Told of the stages.

    Raises:
        InputError: A name is unknown, the outputs do not follow from the inputs, or the output cannot be written.
    """
    walk = Walk(progress)
    loaded = walk.run_stage(Load(), model).model
    part = extract_part(loaded, outputs=outputs, inputs=inputs)
    write_model(part, output)
    nodes, nodes_before = (sum(1 for _ in one.graph.all_nodes()) for one in (part, loaded))
    return ExtractedModel(output, nodes, nodes_before, part.inputs, part.outputs, tuple(walk.warnings))


def check_model(model: Path, target: str, shapes: ShapeRequest, progress: Progress) -> OperatorCheck:
    """Asks a target about every node of a model as it would be built: fixed, simplified, rewritten where needed.

    Args:
        model: The ONNX file.
        target: Name of a device profile.
        shapes: Sizes of dynamic dimensions.
        progress: Told of the stages.

    Raises:
        InputError: The model cannot be used, the target is unknown, or the shapes do not fit.
    """
    plugin, profile = find_profile(target)
    walk = Walk(progress)
    fixed = walk.run_stage(FixShapes(shapes, defaults=True), walk.run_stage(Load(), model).model).model
    if needs_branch(fixed, [(plugin, profile)]):
        fixed = walk.run_stage(TakeBranch(), fixed).model
    simplified = _simplified(walk, fixed)
    with progress.stage("check operators"):
        adaptation = adapted(simplified, plugin, profile, installed_rewrites())
        support = summarize(adaptation.rewritten.model, adaptation.verdicts, profile)
    return OperatorCheck(
        model,
        profile.name,
        tuple(adaptation.verdicts),
        support,
        adaptation.rewritten.as_record()["rewrites"],
        (*walk.warnings, *adaptation.rewritten.warnings),
    )


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
    if order.output.exists() and order.output.samefile(order.model):
        raise InputError(
            "is the float model itself, which would be lost", subject=f"-o {order.output}", hint="name another file"
        )
    if order.instruction_sets is not None:
        if order.target is None:
            raise InputError("needs a target whose runtime is held to them", subject="--isa", hint="give --target NAME")
        require_executable(order.instruction_sets, find_profile(order.target)[0])
    reasons = {} if order.target is None else _refused_schemes(order.target)
    require_scheme(
        order.scheme,
        available=order.data is not None,
        refused=reasons,
        option="--scheme",
        quantizer=order.quantizer,
        may_stay_float=False,
    )
    walk = Walk(progress)
    sampled = None if order.data is None else sampled_shapes(order.data)
    fixed = _fixed_for_samples(walk, order, sampled).with_outputs(order.outputs)
    samples = None
    if order.data is not None:
        at_defaults = at_sizes(fixed.inputs, defaults(fixed.open_dims))
        preprocessing = None
        if not _holds_arrays(sampled):
            preprocessing = resolve_preprocessing(order.preprocessing, at_defaults)
            preprocessing = preprocessing or stated.preprocessing(fixed.metadata, at_defaults)
        class_names = fixed.class_names if order.labels is None else read_class_names(order.labels)
        if order.labels is not None:
            check_class_names(class_names, order.labels, fixed.outputs)
        fixed = replace(fixed, class_names=class_names)
        samples = open_samples(
            order.data, fixed.inputs, preprocessing, class_names, fixed.open_dims, nan_inputs=fixed.nan_inputs
        )
    simplified = _simplified(walk, fixed)
    before = simplified.weight_bytes
    model, record = _quantized(
        walk,
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
            choice=order.choice,
            explain=order.explain,
        ),
        order,
        progress,
    )
    write_model(model, order.output)
    return QuantizedModel(
        order.output,
        record,
        bytes_before=_bytes(order.model),
        bytes=_bytes(order.output),
        weight_bytes_before=before,
        weight_bytes=model.weight_bytes,
        warnings=tuple(walk.warnings),
    )


def features_record(inputs: Iterable[ValueSpec], outputs: Iterable[ValueSpec]) -> dict[str, Any]:
    """Inputs and outputs as plain data."""
    return {
        kind: [
            {"name": spec.name, "dtype": spec.dtype, "shape": None if spec.shape is None else list(spec.shape)}
            for spec in specs
        ]
        for kind, specs in (("inputs", inputs), ("outputs", outputs))
    }


def _fixed(walk: Walk, model: Path, shapes: ShapeRequest) -> Model:
    return walk.run_stage(FixShapes(shapes), walk.run_stage(Load(), model).model).model


def _holds_arrays(sampled: SampledShapes | None) -> bool:
    """Whether samples are there as arrays, not as pictures or sounds."""
    return sampled is not None and sampled.count > 0


def _fixed_for_samples(walk: Walk, order: QuantizeOrder, sampled: SampledShapes | None) -> Model:
    """The model to quantize: dimensions stay free where samples are arrays, and all that executes it takes any size.

    A picture or a sound becomes an input of one shape, and a target that has to know sizes executes candidates.
    """
    if sampled is None:
        return _fixed(walk, order.model, order.shapes)
    loaded = walk.run_stage(Load(), order.model).model
    held = Holds.ANY if order.target is None else held_sizes([find_profile(order.target)])
    sizes = SampledSizes(sampled.ranges, sampled.count, held)
    completed = held is not Holds.ANY or not _holds_arrays(sampled)
    fixed = walk.run_stage(FixShapes(order.shapes, defaults=completed, sampled=sizes), loaded).model
    if held is not Holds.ANY:
        require_one_size(fixed, sampled, held)
    return fixed


def _simplified(walk: Walk, fixed: Model) -> Model:
    return walk.run_stage(Simplify(), fixed).model


def _refused_schemes(target: str) -> Mapping[str, str]:
    """The schemes that the command cannot do for a target, and why."""
    plugin, profile = find_profile(target)
    why = f"{plugin.name} stores weights so when it builds: `edgekit package` takes it"
    return {**refused(plugin, profile), **dict.fromkeys(plugin.weight_schemes(profile), why)}


def _quantized(
    walk: Walk, request: QuantizationRequest, order: QuantizeOrder, progress: Progress
) -> tuple[Model, Mapping[str, Any]]:
    """The quantized model and the quantizer's record, for the target where one is named."""
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
            choice=order.choice,
            explain=order.explain,
        )
        result = walk.run_stage(stage, request.model)
        return result.model, result.record
    with progress.stage(Quantize.name):
        found = installed_quantizer(order.quantizer).quantize(request)
    walk.keep(Quantize.name, found.record)
    for warning in found.record.get("warnings", ()):
        progress.warn(warning)
    return found.model, found.record


def _bytes(model: Path) -> int:
    """Of the model's file and of the files that it keeps its tensors in."""
    return sum(file.stat().st_size for file in model_files(model))
