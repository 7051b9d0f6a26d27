"""The package's functions for use without the pipeline: convert a model, and execute the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgekit.errors import InputError, UnsupportedOpsError
from edgekit.files.utf8_names import require_name_for_libraries

if TYPE_CHECKING:
    import onnx

    from edgekit_onnxruntime.runner import SessionRunner

PRECISIONS = ("float32",)


def convert(model: onnx.ModelProto | str | Path, out: str | Path, *, precision: str = "float32") -> Path:
    """Write a model in ORT format, optimized as the runtime would optimize it while loading.

    Args:
        model: The ONNX model, or its file.
        out: The file to write; ``.ort`` is appended if it is missing.
        precision: Only ``float32``: ONNX Runtime computes in the types that the model names.

    Returns:
        The file that was written.

    Raises:
        edgekit.errors.UnsupportedOpsError: ONNX Runtime has no kernel for some nodes, or deviates from the standard in
            computing them, and no rewrite replaces them; all of these nodes are listed.
        edgekit.errors.InputError: Another precision was requested, or the model is invalid.
    """
    from edgekit.files.atomic import atomic_file, temporary_folder
    from edgekit.graph.reading.inlining import inline_functions
    from edgekit.graph.reading.ir_version import mark_loadable
    from edgekit.graph.reading.scalar_operands import make_operands_scalars
    from edgekit.graph.sizes.shapes import infer_shapes
    from edgekit.model import Model
    from edgekit.registry import installed_rewrites
    from edgekit.rewrites.adaptation import converted
    from edgekit.rewrites.given_model import given_model
    from edgekit_onnxruntime.build import write_ort_format
    from edgekit_onnxruntime.departures import departing_nodes
    from edgekit_onnxruntime.signed_activations import loadable_activations

    if precision not in PRECISIONS:
        raise InputError(
            "ONNX Runtime computes in the types that the model names",
            subject="precision",
            expected=" or ".join(PRECISIONS),
            found=precision,
        )
    target = Path(out)
    if target.suffix != ".ort":
        target = target.with_name(f"{target.name}.ort")
    given = given_model(model)
    inline_functions(given.graph_model)
    mark_loadable(given.graph_model)
    make_operands_scalars(given.graph_model)

    def write(candidate: Model) -> Path:
        gaps = departing_nodes(infer_shapes(candidate, strict=False))
        if gaps:
            raise UnsupportedOpsError(gaps, subject=given.name)
        with temporary_folder() as folder:
            source = folder / f"{given.name}.onnx"
            loadable_activations(candidate).save(source)
            write_ort_format(source, place)
        return target

    require_name_for_libraries(target)
    with atomic_file(target) as place:
        return converted(given, write, installed_rewrites())


def load(path: str | Path, *, threads: int = 1) -> SessionRunner:
    """A runner that executes a ``.onnx`` or ``.ort`` file with the CPU provider on ``threads`` threads.

    Raises:
        edgekit.errors.UnsupportedOpsError: ONNX Runtime has no kernel for some nodes; all of them are listed.
        edgekit.errors.InputError: The file is not a model that ONNX Runtime can read.
    """
    from edgekit_onnxruntime.runner import SessionRunner

    return SessionRunner(Path(path), threads=threads)
