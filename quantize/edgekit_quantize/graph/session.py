"""Opens a graph in ONNX Runtime, which computes all values of the model that the quantizer needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.execution.reference import NotRunnableError, open_session
from edgekit.model import Model


def session(model: ir.Model, threads: int = 0) -> Any:
    """An inference session of the model on the CPU.

    If ONNX Runtime optimizes the graph into one that it then refuses, the graph is executed without optimizations. This
    happens if it moves a Transpose behind a cubic Resize.

    Args:
        model: The graph; it is not changed.
        threads: Threads within an operator; 0 for the runtime's choice.

    Raises:
        edgekit.execution.reference.NotRunnableError: ONNX Runtime refuses the graph without optimizations, too.
    """
    try:
        return open_session(Model(model), _options(threads))
    except NotRunnableError:
        import onnxruntime

        as_written = _options(threads)
        as_written.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return open_session(Model(model), as_written)


def _options(threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.enable_mem_pattern = False  # memory patterns keep memory for every input shape that ran once
    # Threads that wait in a busy loop take processor time from everything that runs at the same time as the session.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


class SessionRunner:
    """Executes a model with ONNX Runtime on this machine, if no target executes it."""

    def __init__(self, model: ir.Model) -> None:
        self._session = session(model, threads=1)
        self._names = [output.name for output in self._session.get_outputs()]

    @property
    def executed_by(self) -> str:
        """The runtime that executes the model, in words."""
        import onnxruntime

        return f"ONNX Runtime {onnxruntime.__version__}, CPU, 1 thread"

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name for inputs by name."""
        return dict(zip(self._names, self._session.run(self._names, dict(feeds)), strict=True))
