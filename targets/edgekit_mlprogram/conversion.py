"""From an ONNX model to an .mlpackage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from edgekit.errors import InputError, UnsupportedOpsError
from edgekit.features.dimensions import OpenDims
from edgekit.files.atomic import atomic_directory, temporary_folder
from edgekit.files.copying import copy_folder
from edgekit.model import Model
from edgekit.progress import Step
from edgekit.registry import installed_rewrites
from edgekit.rewrites.adaptation import converted
from edgekit.rewrites.given_model import given_model
from edgekit.target import Feature
from edgekit_mil.deployment import compression_schemes, deployment_target
from edgekit_mil.program.interface import Interface
from edgekit_mlprogram.cached_choices import CachedChoices, example_digests, form_digest
from edgekit_mlprogram.trial_inputs import TrialInputs, random_trials
from edgekit_mlprogram.values_before_choices import before_choices

PRECISIONS = ("auto", "float16", "float32")


@dataclass(frozen=True)
class Conversion:
    """A finished conversion."""

    package: Path
    inputs: tuple[Feature, ...]
    outputs: tuple[Feature, ...]
    states: tuple[Feature, ...]
    """Values that the program keeps from one run to the next."""
    precision: str
    """Precision of the program: ``float16`` if any operation may compute in it, else ``float32``."""
    kept_float32: tuple[str, ...] = ()
    """Operations of a float16 program that stay in float32 for the sake of accuracy."""
    compressed: tuple[str, ...] = ()
    """Operations whose weights are compressed."""
    notes: tuple[str, ...] = ()
    """What was left out or changed."""


@dataclass(frozen=True)
class _Job:
    """What every attempt at one conversion has in common."""

    graph_model: ir.Model
    target: str
    subject: object
    texts: Mapping[str, str]
    dimensions: OpenDims
    interface: Interface
    labels: tuple[str, ...]
    compression: str | None


def convert(
    model: onnx.ModelProto | str | Path,
    out: str | Path,
    *,
    deployment_target: str = "iOS18",
    precision: str = "float16",
    dimensions: OpenDims | None = None,
    states: Mapping[str, str] | None = None,
    compression: str | None = None,
) -> Path:
    """Convert an ONNX model to an ML Program.

    Args:
        model: The model, or its file. Every input's shape has to be fixed, except for open dimensions.
        out: The package to write; ``.mlpackage`` is added where it is missing. An existing package is replaced.
        deployment_target: The earliest system that has to run it, ``iOS16`` to ``iOS26``.
        precision: What the program computes in: ``float32``; ``float16``; or ``auto``, which is float16 except for the
            operations that overflow or lose too much accuracy when both precisions are executed on several kinds of
            random inputs.
        dimensions: The sizes that each open dimension may take, by the dimension's name in the model: ``range(1, 9)``
            for any size from 1 to 8, ``(224, 320)`` for one of these two. The first size is the default.
        states: Inputs that the program keeps from one run to the next (Core ML's states, in float16, zero at first),
            each with the output that replaces it. Neither remains an input or output of the program. From iOS 18 on.
        compression: How weights are stored: ``int4-weights`` (from iOS 18 on), ``palette4``, ``palette6`` or
            ``palette8``; None for the program's precision.

    Returns:
        The package's path.

    Raises:
        edgekit.errors.UnsupportedOpsError: Nodes that cannot be converted, all of them.
        edgekit.errors.InputError: A dynamic input shape, states that do not fit the model, or a deployment target,
            precision or compression that is unknown or that the deployment target lacks.
    """
    return convert_with(
        convert_graph,
        model,
        out,
        deployment_target_name=deployment_target,
        precision=precision,
        dimensions=dimensions,
        interface=Interface(states=states or {}),
        compression=compression,
    )


def convert_with(
    convert_graph: Callable[..., Conversion], model: onnx.ModelProto | str | Path, out: str | Path, **options: Any
) -> Path:
    """Convert a model, rewritten where some of its nodes cannot be converted as they are.

    Args:
        convert_graph: Converts a graph; takes the arguments of :func:`convert_graph`.
        model: The model, or its file.
        out: What to write.
        options: Further arguments of ``convert_graph``.

    Returns:
        The path of what ``convert_graph`` wrote.

    Raises:
        edgekit.errors.UnsupportedOpsError: Nodes that cannot be converted, all of them.
        edgekit.errors.InputError: As raised by ``convert_graph``.
    """
    given = given_model(model)

    def path(candidate: Model) -> Path:
        return convert_graph(candidate.graph_model, Path(out), subject=given.source, **options).package

    return converted(given, path, installed_rewrites())


def convert_graph(
    graph_model: ir.Model,
    out: Path,
    *,
    deployment_target_name: str,
    precision: str,
    subject: object = None,
    texts: Mapping[str, str] | None = None,
    examples: Sequence[Mapping[str, np.ndarray]] = (),
    dimensions: OpenDims | None = None,
    interface: Interface | None = None,
    labels: Sequence[str] = (),
    compression: str | None = None,
    progress: Step | None = None,
    draft: bool = False,
) -> Conversion:
    """Convert a graph; see :func:`convert`.

    Args:
        graph_model: The model.
        out: The package to write.
        deployment_target_name: The earliest system that has to run it.
        precision: What the program computes in.
        subject: What to call the model in errors.
        texts: ``author``, ``license``, ``description`` and ``version`` for the package's metadata.
        examples: Inputs by ONNX name on which ``auto`` compares programs; random inputs if there are none.
        dimensions: The sizes that open dimensions may take; see :func:`convert`.
        interface: What the program offers to applications beyond arrays.
        labels: Names of the classes by index, for the package's metadata.
        compression: How weights are stored; see :func:`convert`.
        progress: Called for every program that ``auto`` tries.
        draft: Whether ``auto`` starts from its choice for the previous draft of the same model; drafts differ in how
            weights are rounded. A graph that was converted before, with the same examples, keeps its choice.
    """
    if precision not in PRECISIONS:
        raise InputError("unknown precision", subject="--precision", expected=" or ".join(PRECISIONS), found=precision)
    target = deployment_target(deployment_target_name)
    if compression is not None and compression not in compression_schemes(target):
        raise InputError(
            "the deployment target cannot store weights in this form",
            subject=f"--quantize {compression}",
            expected=" | ".join(compression_schemes(target)),
            found=target,
        )
    job = _Job(
        graph_model,
        target,
        subject,
        texts or {},
        dimensions or {},
        interface or Interface(),
        tuple(labels),
        compression,
    )
    path = out if out.suffix == ".mlpackage" else out.with_name(f"{out.name}.mlpackage")
    with atomic_directory(path, what="package", may_replace=is_package) as folder:
        if precision == "auto":
            trials = [TrialInputs(examples)] if examples else random_trials(Model(graph_model), job.dimensions)
            conversion = _write_mixed(job, folder, trials, progress, draft=draft)
        else:
            conversion = _write(job, folder, None if precision == "float32" else frozenset())
    return replace(conversion, package=path)


def _write(job: _Job, folder: Path, kept_float32: frozenset[str] | None) -> Conversion:
    """Write the package's files.

    Args:
        job: What to convert.
        folder: The package's folder, empty.
        kept_float32: Names of the operations that stay in float32; None for all of them.
    """
    from edgekit_mil.passes.few_levels import store_few_levels
    from edgekit_mil.passes.pipeline import optimize
    from edgekit_mil.passes.sparse_storage import store_sparse
    from edgekit_mil.passes.weight_compression import compress
    from edgekit_mil.program.build import build_program, export
    from edgekit_mil.program.description import describe, state_metadata
    from edgekit_mlprogram import package_writer

    built = build_program(job.graph_model, job.target, job.subject, job.dimensions, job.interface)
    if built.gaps:
        raise UnsupportedOpsError(built.gaps, subject=job.subject)
    optimize(built.program, None if kept_float32 is None else lambda op: not _stays(op, kept_float32))
    compressed = () if job.compression is None else compress(built.program, job.compression, job.target)
    store_few_levels(built.program, job.target)
    store_sparse(built.program, job.target)
    weights = package_writer.weights_folder(folder)
    specification = export(built.program, weights, job.target, job.interface.classes)
    described = job.interface, job.labels, job.texts, built.notes, built.states
    describe(specification.description, built.inputs, built.outputs, *described)
    state_metadata(specification.description, job.graph_model.metadata_props)
    package_writer.write(folder, specification)
    return Conversion(
        folder,
        tuple(built.inputs),
        tuple(built.outputs),
        tuple(built.states),
        "float32" if kept_float32 is None else "float16",
        tuple(sorted(kept_float32 or ())),
        tuple(compressed),
        tuple(built.notes),
    )


MOVES = frozenset({"transpose", "reshape", "expand_dims", "squeeze", "slice_by_index", "slice_by_size", "identity"})
"""Operations that move numbers and compute nothing; passes rename them, so a name does not tell what to keep."""


def _stays(op: Any, kept_float32: frozenset[str]) -> bool:
    """Whether an operation is kept in float32, or only moves the result of an operation that is."""
    while op is not None:
        if op.name in kept_float32:
            return True
        if op.op_type not in MOVES:
            return False
        op = op.inputs["x"].op
    return False


_earlier = CachedChoices()


def _write_mixed(
    job: _Job, folder: Path, trials: Sequence[TrialInputs], progress: Step | None = None, *, draft: bool = False
) -> Conversion:
    """Write the package in float16, except for the operations that have to stay in float32.

    These operations are found in a plain program, which takes the trial inputs as they are and has uncompressed
    weights.
    """
    from edgekit_mlprogram.mixed_precision import choose

    plain = replace(job, interface=Interface(), compression=None)
    graph = job.graph_model.graph
    borders = [(value.name, str(value.shape)) for value in (*graph.inputs, *graph.outputs)]
    _earlier.turn_to((str(job.subject), job.target, str(job.dimensions), *borders))
    form = form_digest(job.graph_model, trials)
    choice = _earlier.of(form, draft=draft)
    if choice is not None:
        return _write(job, folder, None if choice.everything else choice.kept)
    with temporary_folder() as scratch:
        conversions: dict[frozenset[str] | None, Conversion] = {}

        def attempt(kept: frozenset[str] | None) -> Path:
            if kept in conversions:
                return conversions[kept].package
            package = scratch / f"{len(conversions)}.mlpackage"
            conversions[kept] = _write(plain, package, kept)
            return package

        before = _earlier.last_draft if draft else None
        compared = before_choices(graph)
        compared_on = form_digest(job.graph_model, ()), example_digests(trials)
        choice = choose(
            attempt(None),
            attempt,
            trials,
            progress=progress,
            first=before,
            compared=compared,
            missed_decisions=_earlier.missed_decisions(*compared_on),
        )
        if choice.by_decisions:
            _earlier.add_decisions(*compared_on)
        if draft:
            _earlier.add_draft(form, choice)
        kept = None if choice.everything else choice.kept
        if job != plain:
            return _write(job, folder, kept)
        copy_folder(conversions[kept].package, folder)
    return conversions[kept]


def is_package(path: Path) -> bool:
    """Whether a folder is an .mlpackage."""
    return path.suffix == ".mlpackage" and (path / "Manifest.json").is_file()
