"""From an ONNX model to an .mlpackage."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

from edgekit.atomic import atomic_directory
from edgekit.errors import InputError, UnsupportedOpsError
from edgekit.inputs import index_limits, seeded_inputs
from edgekit.model import Model
from edgekit.target import Feature
from edgekit_coreml.deployment import deployment_target

if TYPE_CHECKING:
    from edgekit_coreml.frontend.flexible import Sizes

PRECISIONS = ("auto", "float16", "float32")
METADATA_FIELDS = {
    "author": "author",
    "license": "license",
    "short_description": "shortDescription",
    "version": "versionString",
}


@dataclass(frozen=True)
class Conversion:
    """A finished conversion."""

    package: Path
    inputs: tuple[Feature, ...]
    outputs: tuple[Feature, ...]
    precision: str
    """What the program computes in: ``float32``, or ``float16`` where any operation does."""
    kept_float32: tuple[str, ...] = ()
    """Operations of a float16 program that stay in float32 for the sake of accuracy."""


@dataclass(frozen=True)
class _Job:
    """What every attempt at one conversion has in common."""

    graph_model: ir.Model
    target: str
    subject: object
    texts: Mapping[str, str]
    dimensions: Mapping[str, Sizes]


def convert(
    model: onnx.ModelProto | Path,
    out: Path,
    *,
    deployment_target: str = "iOS18",
    precision: str = "float16",
    dimensions: Mapping[str, Sizes] | None = None,
) -> Path:
    """Convert an ONNX model to an ML Program.

    Args:
        model: The model, or its file. Every input's shape has to be fixed, but for the dimensions that stay open.
        out: The package to write; ``.mlpackage`` is added where it is missing. An existing package is replaced.
        deployment_target: The earliest system that has to run it, ``iOS16`` to ``iOS26``.
        precision: What the program computes in: ``float32``; ``float16``; or ``auto``, which is float16 but for the
            operations that overflow or lose too much in it, as executing both on random inputs shows.
        dimensions: The sizes that dimensions may take that stay open, by the names that the model gives them:
            ``range(1, 9)`` for any of 1 to 8, ``(224, 320)`` for one of these. The first is the default.

    Returns:
        The package's path.

    Raises:
        edgekit.errors.UnsupportedOpsError: Nodes that cannot be converted, all of them.
        edgekit.errors.InputError: A dynamic input shape, or an unknown deployment target or precision.
    """
    if isinstance(model, onnx.ModelProto):
        graph_model, subject = ir.from_proto(model), None
    else:
        graph_model, subject = ir.load(model), model
    return convert_graph(
        graph_model,
        out,
        deployment_target_name=deployment_target,
        precision=precision,
        subject=subject,
        dimensions=dimensions,
    ).package


def convert_graph(
    graph_model: ir.Model,
    out: Path,
    *,
    deployment_target_name: str,
    precision: str,
    subject: object = None,
    texts: Mapping[str, str] | None = None,
    examples: Sequence[Mapping[str, np.ndarray]] = (),
    dimensions: Mapping[str, Sizes] | None = None,
) -> Conversion:
    """Convert a graph; see :func:`convert`.

    Args:
        graph_model: The model.
        out: The package to write.
        deployment_target_name: The earliest system that has to run it.
        precision: What the program computes in.
        subject: What to call the model in errors.
        texts: ``author``, ``license``, ``short_description`` and ``version`` for the package's metadata.
        examples: Inputs by ONNX name that ``auto`` goes by; random ones where there are none.
        dimensions: The sizes that open dimensions may take; see :func:`convert`.
    """
    if precision not in PRECISIONS:
        raise InputError("unknown precision", subject="--precision", expected=" or ".join(PRECISIONS), found=precision)
    job = _Job(graph_model, deployment_target(deployment_target_name), subject, texts or {}, dimensions or {})
    path = out if out.suffix == ".mlpackage" else out.with_name(f"{out.name}.mlpackage")
    with atomic_directory(path, what="package", may_replace=is_package) as folder:
        if precision == "auto":
            conversion = _write_mixed(job, folder, examples or _random_examples(graph_model, job.dimensions))
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
    from edgekit_coreml.frontend import package as package_writer
    from edgekit_coreml.frontend import passes, signature
    from edgekit_coreml.frontend.program import build_program, export

    built = build_program(job.graph_model, job.target, job.subject, job.dimensions)
    if built.gaps:
        raise UnsupportedOpsError(built.gaps, subject=job.subject)
    passes.optimize(built.program, None if kept_float32 is None else lambda op: op.name not in kept_float32)
    weights = package_writer.weights_folder(folder)
    specification = export(built.program, weights, job.target)
    description = specification.description.metadata
    for key, text in signature.metadata(built.inputs, built.outputs).items():
        description.userDefined[key] = text
    for key, text in job.texts.items():
        setattr(description, METADATA_FIELDS[key], text)
    package_writer.write(folder, specification)
    precision = "float32" if kept_float32 is None else "float16"
    return Conversion(folder, tuple(built.inputs), tuple(built.outputs), precision, tuple(sorted(kept_float32 or ())))


def _write_mixed(job: _Job, folder: Path, examples: Sequence[Mapping[str, np.ndarray]]) -> Conversion:
    """Write the package in float16, but for the operations that have to stay in float32."""
    from edgekit_coreml.mixed_precision import choose

    with tempfile.TemporaryDirectory(prefix="edgekit-") as scratch:
        conversions: dict[frozenset[str] | None, Conversion] = {}

        def attempt(kept: frozenset[str] | None) -> Path:
            package = Path(scratch) / f"{len(conversions)}.mlpackage"
            conversions[kept] = _write(job, package, kept)
            return package

        choice = choose(attempt(None), attempt, examples)
        chosen = conversions[None if choice.everything else choice.kept]
        shutil.copytree(chosen.package, folder, dirs_exist_ok=True)
    return chosen


def _random_examples(graph_model: ir.Model, dimensions: Mapping[str, Sizes]) -> list[Mapping[str, np.ndarray]]:
    """Inputs to judge the precision by where the caller has none.

    Indices come from their whole range and, since an input of few different symbols has little variance for a
    normalization to divide by, from zero and one alone.
    """
    model = Model(graph_model)
    defaults = {name: sizes[0] for name, sizes in dimensions.items()}
    inputs = [
        replace(spec, shape=tuple(defaults.get(size, size) if isinstance(size, str) else size for size in spec.shape))
        if spec.shape is not None
        else spec
        for spec in model.inputs
    ]
    limits = index_limits(model)
    narrow = {spec.name: 2 for spec in model.inputs if np.issubdtype(np.dtype(spec.dtype), np.integer)}
    return [seeded_inputs(inputs, 0, limits), seeded_inputs(inputs, 1, narrow)]


def is_package(path: Path) -> bool:
    """Whether a folder is an .mlpackage."""
    return path.suffix == ".mlpackage" and (path / "Manifest.json").is_file()
