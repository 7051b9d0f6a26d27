"""Opens a graph in ONNX Runtime, which is what computes everything that the quantizer has to know of the model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

if TYPE_CHECKING:
    import onnxruntime

LARGEST_MESSAGE = 2**30
"""Bytes of weights up to which a model is handed over as one message; larger ones go through a file."""


def open_session(model: ir.Model, threads: int = 0) -> onnxruntime.InferenceSession:
    """An inference session of the model on the CPU.

    Args:
        model: The graph; it is not changed.
        threads: Threads within an operator; 0 for the runtime's choice.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.enable_mem_pattern = False
    weights = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
    providers = ["CPUExecutionProvider"]
    if weights <= LARGEST_MESSAGE:
        message = ir.to_proto(model).SerializeToString()
        return onnxruntime.InferenceSession(message, options, providers=providers)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        ir.save(model, path, external_data="model.onnx.data")
        return onnxruntime.InferenceSession(str(path), options, providers=providers)


class SessionRunner:
    """Executes a model here where no target does."""

    def __init__(self, model: ir.Model) -> None:
        self._session = open_session(model, threads=1)
        self._names = [output.name for output in self._session.get_outputs()]

    @property
    def executed_by(self) -> str:
        """What really executes."""
        import onnxruntime

        return f"ONNX Runtime {onnxruntime.__version__}, CPU, 1 thread"

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name for inputs by name."""
        return dict(zip(self._names, self._session.run(self._names, dict(feeds)), strict=True))
