"""From an ONNX model to an .mlpackage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from edgekit.atomic import atomic_directory
from edgekit.errors import InputError, UnsupportedOpsError
from edgekit.target import Feature
from edgekit_coreml.deployment import deployment_target

PRECISIONS = ("float16", "float32")
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


def convert(
    model: onnx.ModelProto | Path,
    out: Path,
    *,
    deployment_target: str = "iOS18",
    precision: str = "float16",
) -> Path:
    """Convert an ONNX model to an ML Program.

    Args:
        model: The model, or its file. Every input's shape has to be fixed.
        out: The package to write; ``.mlpackage`` is added where it is missing. An existing package is replaced.
        deployment_target: The earliest system that has to run it, ``iOS16`` to ``iOS26``.
        precision: ``float16`` or ``float32``: what the program computes in.

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
        graph_model, out, deployment_target_name=deployment_target, precision=precision, subject=subject
    ).package


def convert_graph(
    graph_model: ir.Model,
    out: Path,
    *,
    deployment_target_name: str,
    precision: str,
    subject: object = None,
    texts: Mapping[str, str] | None = None,
) -> Conversion:
    """Convert a graph; see :func:`convert`.

    Args:
        graph_model: The model.
        out: The package to write.
        deployment_target_name: The earliest system that has to run it.
        precision: What the program computes in.
        subject: What to call the model in errors.
        texts: ``author``, ``license``, ``short_description`` and ``version`` for the package's metadata.
    """
    if precision not in PRECISIONS:
        raise InputError("unknown precision", subject="--precision", expected=" or ".join(PRECISIONS), found=precision)
    target = deployment_target(deployment_target_name)
    from edgekit_coreml.frontend import package as package_writer
    from edgekit_coreml.frontend import passes, signature
    from edgekit_coreml.frontend.program import build_program, export

    built = build_program(graph_model, target, subject)
    if built.gaps:
        raise UnsupportedOpsError(built.gaps, subject=subject)
    passes.optimize(built.program, (lambda _: True) if precision == "float16" else None)
    path = out if out.suffix == ".mlpackage" else out.with_name(f"{out.name}.mlpackage")
    with atomic_directory(path, what="package", may_replace=is_package) as folder:
        weights = package_writer.weights_folder(folder)
        specification = export(built.program, weights, target)
        description = specification.description.metadata
        for key, text in signature.metadata(built.inputs, built.outputs).items():
            description.userDefined[key] = text
        for key, text in (texts or {}).items():
            setattr(description, METADATA_FIELDS[key], text)
        package_writer.write(folder, specification)
    return Conversion(path, tuple(built.inputs), tuple(built.outputs))


def is_package(path: Path) -> bool:
    """Whether a folder is an .mlpackage."""
    return path.suffix == ".mlpackage" and (path / "Manifest.json").is_file()
