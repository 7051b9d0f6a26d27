"""Converts an ONNX model to an .aimodel, via the .mlpackage that the conversion to ML Programs writes.

One lowering of ONNX operators serves both Core ML and Core AI: it defines their meaning in MIL, and Core AI's
operations are translated from the emitted package, which is read with the reference runtime's reader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from edgekit.errors import InputError
from edgekit.features.dimensions import OpenDims
from edgekit.files.atomic import atomic_directory, temporary_folder
from edgekit.progress import Step
from edgekit_coreai.availability import require_core_ai
from edgekit_coreai.process import Process, shared
from edgekit_mil.program.interface import Interface
from edgekit_mlprogram import conversion as ml_program
from edgekit_mlprogram.conversion import Conversion
from edgekit_mlruntime.registry import IOS_OF_OPSET

PROGRAM_TARGET = "iOS18"
"""The operator set of the ML Programs that are translated; iOS 26 adds no operations."""
DEPLOYMENT_TARGETS = ("iOS27", "macOS27")
SUFFIX = ".aimodel"


def operator_set() -> int:
    """The iOS version of the operator set of the ML Programs that are translated."""
    return next(version for version in IOS_OF_OPSET.values() if f"iOS{version}" == PROGRAM_TARGET)


def convert(
    model: onnx.ModelProto | str | Path,
    out: str | Path,
    *,
    deployment_target: str = "iOS27",
    precision: str = "float16",
    dimensions: OpenDims | None = None,
    states: Mapping[str, str] | None = None,
    compression: str | None = None,
) -> Path:
    """Convert an ONNX model to a Core AI model.

    Args:
        model: The model, or its file. Every input's shape has to be fixed, except for dimensions in ``dimensions``.
        out: The model to write; ``.aimodel`` is added if the suffix is missing. An existing model is replaced.
        deployment_target: ``iOS27`` or ``macOS27``.
        precision: ``float32``, ``float16`` or ``auto``, as in :func:`edgekit_mlprogram.conversion.convert`.
        dimensions: The sizes that each open dimension may take, by the dimension's name in the model.
        states: Inputs that the model keeps from one run to the next, each with the output that replaces it.
        compression: How weights are stored: ``int4-weights``, ``palette4``, ``palette6`` or ``palette8``.

    Returns:
        The model's path.

    Raises:
        edgekit.errors.UnsupportedOpsError: Nodes cannot be converted, or operations cannot be translated; the error
            lists all of them.
        edgekit.errors.InputError: The conversion to ML Programs refuses an argument, or Core AI is not installed.
        edgekit_coreai.process.CoreAICrashError: Apple's compiler refuses the model or ends its process.
    """
    if deployment_target not in DEPLOYMENT_TARGETS:
        raise InputError("unknown deployment target", expected=", ".join(DEPLOYMENT_TARGETS), found=deployment_target)
    return ml_program.convert_with(
        convert_graph,
        model,
        out,
        precision=precision,
        dimensions=dimensions,
        interface=Interface(states=states or {}),
        compression=compression,
    )


def convert_graph(
    graph_model: ir.Model,
    out: Path,
    *,
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
    """Convert a graph; the arguments are those of :func:`edgekit_mlprogram.conversion.convert_graph`."""
    require_core_ai()
    with temporary_folder() as scratch:
        converted = ml_program.convert_graph(
            graph_model,
            scratch / "model.mlpackage",
            deployment_target_name=PROGRAM_TARGET,
            precision=precision,
            subject=subject,
            texts=texts,
            examples=examples,
            dimensions=dimensions,
            interface=Interface(states=interface.states) if interface is not None else None,
            labels=labels,
            compression=compression,
            progress=progress,
            draft=draft,
        )
        picture = None if interface is None or interface.image is None else interface.image.as_record()
        path = translate_package(converted.package, out, texts=texts, subject=subject, picture=picture)
    return replace(converted, package=path)


def translate_package(
    package: Path,
    out: Path,
    *,
    function: str | None = None,
    texts: Mapping[str, str] | None = None,
    subject: object = None,
    picture: Mapping[str, Any] | None = None,
    process: Process | None = None,
) -> Path:
    """Translate an ML Program on disk to a Core AI model.

    Args:
        package: The ``.mlpackage``.
        out: The model to write; ``.aimodel`` is added if the suffix is missing. An existing model is replaced.
        function: The function to translate; None for the default one.
        texts: ``author``, ``license``, ``description`` and ``version`` for the metadata.
        subject: What error messages name as their subject; None for the package.
        picture: The record of an :class:`~edgekit.preprocessing.ImagePreprocessing` that is resolved for the only
            input, with which the model also gets entries that take a picture; None for a model without them.
        process: The process that runs Apple's code; by default the shared process.

    Returns:
        The model's path.

    Raises:
        edgekit.errors.UnsupportedOpsError: Operations cannot be translated; the error lists all of them.
        edgekit.errors.InputError: The package is not a readable ML Program, has no such function, or Core AI is not
            installed.
        edgekit_coreai.process.CoreAICrashError: Apple's compiler refuses the model or ends its process.
    """
    path = out if out.suffix == SUFFIX else out.with_name(f"{out.name}{SUFFIX}")
    with atomic_directory(path, what="model", may_replace=is_model) as folder:
        made = folder / f"made{SUFFIX}"
        arguments = (package.resolve(), function, made, dict(texts or {}), picture)
        (process or shared()).ask(subject or package, "translate", *arguments)
        for file in made.iterdir():
            file.rename(folder / file.name)
        made.rmdir()
        metadata = folder / "metadata.json"
        metadata.write_text(_DATE.sub(_NO_DATE, metadata.read_text(encoding="utf-8")), encoding="utf-8")
    return path


_DATE = re.compile(r'("creationDate"\s*:\s*)"[^"]*"')
_NO_DATE = r'\1"20000101T000000Z"'
"""Replaces the creation date, so that the same conversion writes the same bytes."""


def is_model(path: Path) -> bool:
    """Whether a folder is a Core AI model."""
    return path.suffix == SUFFIX and (path / "metadata.json").is_file()
