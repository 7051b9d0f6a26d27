"""The package's functions for use without the pipeline: convert a model, execute what came out."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from edgekit.errors import InputError

if TYPE_CHECKING:
    import onnx

    from edgekit_openvino.runner import CompiledRunner

PRECISIONS = ("float32", "float16")


def convert(model: onnx.ModelProto | Path, out: Path, *, precision: str = "float32") -> Path:
    """Write a model as OpenVINO IR: a ``.xml`` file, and a ``.bin`` file of the same name beside it.

    Args:
        model: The ONNX model, or its file.
        out: Where to write it; ``.xml`` is appended where it is missing.
        precision: ``float32`` keeps the weights as they are; ``float16`` stores float32 weights in half the space.

    Returns:
        The ``.xml`` file.

    Raises:
        edgekit.errors.UnsupportedOpsError: OpenVINO cannot convert some operators; all of them are listed.
        edgekit.errors.InputError: Another precision was asked for, or the model is invalid.
    """
    from edgekit_openvino.convert import write_ir

    if precision not in PRECISIONS:
        raise InputError("unknown precision", subject="precision", expected=" or ".join(PRECISIONS), found=precision)
    target = out if out.suffix == ".xml" else out.with_name(f"{out.name}.xml")
    half = precision == "float16"
    if isinstance(model, Path):
        write_ir(model, target, half_weights=half)
    else:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "model.onnx"
            source.write_bytes(model.SerializeToString())
            write_ir(source, target, half_weights=half)
    return target


def load(path: Path, *, threads: int = 1) -> CompiledRunner:
    """What executes an IR's ``.xml`` file on the CPU, computing in float32, on ``threads`` threads.

    Raises:
        edgekit.errors.InputError: The file is not a model that OpenVINO can read.
    """
    from edgekit_openvino.runner import CompiledRunner

    return CompiledRunner(path, threads=threads)
