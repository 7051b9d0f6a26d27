"""Opens a graph in ONNX Runtime, which is what computes everything that the quantizer has to know of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.execution.reference import NotRunnableError, open_session
from edgekit.model import Model


def session(model: ir.Model, threads: int = 0) -> Any:
    """An inference session of the model on the CPU.

    A graph that ONNX Runtime rewrites into one that it refuses, as it moves a Transpose behind a cubic Resize, is
    executed as it is written.

    Args:
        model: The graph; it is not changed.
        threads: Threads within an operator; 0 for the runtime's choice.

    Raises:
        edgekit.execution.reference.NotRunnableError: ONNX Runtime refuses the graph as it is written, too.
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
    options.enable_mem_pattern = False  # which holds memory for all that ran once
    # Threads that wait in a loop keep a processor from whatever runs next to the session.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


class SessionRunner:
    """Executes a model here where no target does."""

    def __init__(self, model: ir.Model) -> None:
        self._session = session(model, threads=1)
        self._names = [output.name for output in self._session.get_outputs()]

    @property
    def executed_by(self) -> str:
        """What really executes."""
        import onnxruntime

        return f"ONNX Runtime {onnxruntime.__version__}, CPU, 1 thread"

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name for inputs by name."""
        return dict(zip(self._names, self._session.run(self._names, dict(feeds)), strict=True))
