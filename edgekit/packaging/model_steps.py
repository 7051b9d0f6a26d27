"""Single steps of packaging on a model file: inspect, fix, extract and check, each with its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgekit.errors import InputError
from edgekit.files.atomic import require_another_file
from edgekit.graph.cost import cost, parameter_count
from edgekit.graph.extraction import extract_part
from edgekit.graph.random_inputs import draws_numbers
from edgekit.graph.reading.onnx_file import write_model
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.graph.sizes.shapes import fold_shapes, infer_shapes
from edgekit.model import Dim, ValueSpec, op_name
from edgekit.operators.support import OperatorSupport, summarize
from edgekit.packaging.stage_runner import StageRunner
from edgekit.progress import Progress
from edgekit.registry import find_profile, installed_rewrites
from edgekit.rewrites.adaptation import adapted
from edgekit.stages.fix_shapes import FixShapes, dynamic_dimensions
from edgekit.stages.load import Load
from edgekit.stages.random_inputs import RandomInputs
from edgekit.stages.simplify import Simplify
from edgekit.stages.take_branch import TakeBranch, needs_branch
from edgekit.stages.words_as_numbers import WordsAsNumbers, needs_numbers
from edgekit.target import NodeVerdict, Support


@dataclass(frozen=True)
class DynamicDimension:
    """A dimension of an input that has no known size."""

    input: str
    axis: int
    dimension: Dim
    """The dimension's name, or None if it has none."""
    fix: str
    """The command-line option that would fix the dimension."""


@dataclass(frozen=True)
class Inspection:
    """What goes into a model, what comes out, and what it costs."""

    file: str
    bytes: int
    """Bytes of the file and of the files that it keeps its tensors in."""
    sha256: str
    producer: str
    opset: int
    upgraded_from_opset: int | None
    """The file's operator set if it was too old and was upgraded to ``opset``; None if it is ``opset``."""
    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]
    dynamic_dimensions: tuple[DynamicDimension, ...]
    operators: Mapping[str, int]
    """Number of nodes by operator, the most frequent first."""
    parameters: int
    weight_bytes: int
    macs: int | None
    """Multiplications, each with its addition, of one run; None if shapes are not known."""
    uncounted_nodes: tuple[str, ...]
    """The nodes whose MACs are not known because shapes are not."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the file states of itself, by key."""
    warnings: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        """Number of nodes, including those of subgraphs."""
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
    """Number of nodes of the whole model."""
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


def inspect_model(model: Path, shapes: ShapeRequest, progress: Progress) -> Inspection:
    """Reads a model and counts what it holds and costs.

    Args:
        model: The ONNX file.
        shapes: Sizes of dynamic dimensions to count MACs with.
        progress: Told of the stages.

    Raises:
        InputError: The file is no usable ONNX model, or the shapes do not fit it.
    """
    stages = StageRunner(progress)
    loaded = stages.run_stage(Load(), model)
    shaped = (
        stages.run_stage(FixShapes(shapes), loaded.model).model
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
        warnings=tuple(stages.warnings),
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
    stages = StageRunner(progress)
    loaded = stages.run_stage(Load(), model).model
    if not shapes:
        flags = dict.fromkeys(flag for *_, flag in dynamic_dimensions(loaded))
        raise InputError(
            "no size is given",
            subject="edgekit fix",
            found="; ".join(str(spec) for spec in loaded.inputs),
            hint=f"give {' '.join(flags)}" if flags else "every input has a fixed shape already",
        )
    fixed = stages.run_stage(FixShapes(shapes), loaded)
    write_model(fixed.model, output)
    return FixedModel(output, fixed.model.inputs, fixed.model.outputs, fixed.record, tuple(stages.warnings))


def extract_model(
    model: Path, outputs: Sequence[str], inputs: Sequence[str], output: Path, progress: Progress
) -> ExtractedModel:
    """Cuts a part out of a model and writes it.

    Args:
        model: The ONNX file.
        outputs: The values to compute.
        inputs: The values to start from; if empty, the model's own inputs.
        output: The ONNX file to write.
        progress: Told of the stages.

    Raises:
        InputError: A name is unknown, the outputs do not follow from the inputs, or the output cannot be written.
    """
    stages = StageRunner(progress)
    loaded = stages.run_stage(Load(), model).model
    require_another_file(output, model)
    part = extract_part(loaded, outputs=outputs, inputs=inputs)
    write_model(part, output)
    counts = part.node_count, loaded.node_count
    return ExtractedModel(output, *counts, part.inputs, part.outputs, tuple(stages.warnings))


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
    stages = StageRunner(progress)
    fixed = stages.run_stage(FixShapes(shapes, defaults=True), stages.run_stage(Load(), model).model).model
    if draws_numbers(fixed):
        fixed = stages.run_stage(RandomInputs(), fixed).model
    if needs_numbers(fixed, [(plugin, profile)]):
        fixed = stages.run_stage(WordsAsNumbers(), fixed).model
    if needs_branch(fixed, [(plugin, profile)]):
        fixed = stages.run_stage(TakeBranch(), fixed).model
    simplified = stages.run_stage(Simplify(), fixed).model
    with progress.stage("check operators"):
        adaptation = adapted(simplified, plugin, profile, installed_rewrites())
        support = summarize(adaptation.rewritten.model, adaptation.verdicts, profile)
    return OperatorCheck(
        model,
        profile.name,
        tuple(adaptation.verdicts),
        support,
        adaptation.rewritten.as_record()["rewrites"],
        (*stages.warnings, *adaptation.rewritten.warnings),
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
