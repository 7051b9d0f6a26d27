"""Opening ONNX Runtime sessions, with the runtime's failures told apart and made EdgeKit's errors."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgekit.errors import InputError, UnsupportedOpsError

if TYPE_CHECKING:
    import onnxruntime

CPU_PROVIDER = "CPUExecutionProvider"
LOG_FATAL_ONLY = 4
"""Log severity at which ONNX Runtime keeps to itself what it also raises."""


def session_options(*, optimize: str = "ALL", threads: int = 1) -> onnxruntime.SessionOptions:
    """Options with the number of threads pinned.

    Args:
        optimize: ONNX Runtime's level of graph optimization: ``DISABLED``, ``BASIC``, ``EXTENDED`` or ``ALL``.
        threads: Threads inside an operator; operators run one after the other.
    """
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = {
        "DISABLED": levels.ORT_DISABLE_ALL,
        "BASIC": levels.ORT_ENABLE_BASIC,
        "EXTENDED": levels.ORT_ENABLE_EXTENDED,
        "ALL": levels.ORT_ENABLE_ALL,
    }[optimize]
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = LOG_FATAL_ONLY
    return options


@cache
def runtime_errors() -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises while it loads or runs a model; its classes have no base in common."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return tuple(item for item in vars(state).values() if isinstance(item, type) and issubclass(item, Exception))


def open_session(path: Path, options: onnxruntime.SessionOptions) -> Any:
    """A session on the CPU provider for a ``.onnx`` or ``.ort`` file.

    Raises:
        edgekit.errors.UnsupportedOpsError: There is no kernel for some nodes; all of them are listed.
        edgekit.errors.InputError: The file is not a model that ONNX Runtime can read.
    """
    import onnxruntime

    from edgekit_onnxruntime.gaps import find_gaps

    try:
        return onnxruntime.InferenceSession(str(path), options, providers=[CPU_PROVIDER])
    except runtime_errors() as error:
        gaps = find_gaps(path, error)
        if gaps:
            raise UnsupportedOpsError(gaps, subject=path.name) from error
        raise InputError(f"ONNX Runtime cannot load the model: {first_line(error)}", subject=path) from error


def first_line(error: Exception) -> str:
    """What ONNX Runtime says went wrong, without its error code and without the lines that follow."""
    text = str(error).strip().splitlines()[0]
    return text.split(" : ", 3)[-1] if text.startswith("[ONNXRuntimeError]") else text
