"""Loads models into ONNX Runtime, and converts its failures into EdgeKit's errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgekit.errors import InputError, UnsupportedOpsError
from edgekit_onnxruntime.gaps import find_gaps
from edgekit_onnxruntime.session import CPU_PROVIDER, first_line, runtime_errors

if TYPE_CHECKING:
    import onnxruntime


def open_session(path: Path, options: onnxruntime.SessionOptions, disabled_optimizers: Sequence[str] = ()) -> Any:
    """A session with the CPU provider for a ``.onnx`` or ``.ort`` file.

    Raises:
        edgekit.errors.UnsupportedOpsError: There is no kernel for some nodes; all of them are listed.
        edgekit.errors.InputError: The file is not a model that ONNX Runtime can read.
    """
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(
            str(path), options, providers=[CPU_PROVIDER], disabled_optimizers=list(disabled_optimizers)
        )
    except runtime_errors() as error:
        gaps = find_gaps(path, error)
        if gaps:
            raise UnsupportedOpsError(gaps, subject=path.name) from error
        raise InputError(f"ONNX Runtime cannot load the model: {first_line(error)}", subject=path) from error
