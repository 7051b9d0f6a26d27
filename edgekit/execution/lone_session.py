"""A session for a process that holds nothing else, so that measurements show what the model takes, and nothing else.

It is opened from a folder of two files: ``model.onnx``, and ``order.json`` with

=========== ===========================================================================================================
key         value
=========== ===========================================================================================================
``inputs``  names, in the order in which arrays are given
``outputs`` names, in the order in which arrays are wanted
``states``  ``input``, ``output``, ``shape`` and ``dtype`` of what is fed back from run to run
``tensors`` the folder of the files that ``model.onnx`` refers to; null where they lie beside it, or it refers to none
``runtime`` how the host calls what executes
=========== ===========================================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

MODEL = "model.onnx"
ORDER = "order.json"
TENSORS_FOLDER = "session.model_external_initializers_file_folder_path"
_SILENT = 4
"""ONNX Runtime's log level that prints only fatal errors: exceptions report all others."""


def import_runtime() -> None:
    """Imports ONNX Runtime in advance: importing the library is no part of loading a model."""
    import onnxruntime

    assert onnxruntime.__version__


class LoneSession:
    """A model in ONNX Runtime, with its optimizations, on one thread; its states begin at zero and are fed back.

    Args:
        folder: The folder of the two files.
    """

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        order = json.loads((folder / ORDER).read_text(encoding="utf-8"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = _SILENT
        source: str | bytes = str(folder / MODEL)
        if order["tensors"] is not None:
            options.add_session_config_entry(TENSORS_FOLDER, order["tensors"])
            source = (folder / MODEL).read_bytes()
        self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self._inputs: list[str] = order["inputs"]
        self._states = {one["input"]: np.zeros(one["shape"], one["dtype"]) for one in order["states"]}
        self._wanted = len(order["outputs"])
        self._outputs = [*order["outputs"], *(one["output"] for one in order["states"])]
        self.runtime = str(order["runtime"])
        """The host's name for the runtime."""

    def run(self, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The outputs for the inputs, both in the folder's order."""
        feeds = {**dict(zip(self._inputs, arrays, strict=True)), **self._states}
        outputs: list[np.ndarray] = self._session.run(self._outputs, feeds)
        self._states.update(zip(self._states, outputs[self._wanted :], strict=True))
        return outputs[: self._wanted]
