"""Executes ``.onnx`` and ``.ort`` files with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.comparison.layers import showing
from edgekit.errors import InputError
from edgekit.execution import reference
from edgekit.model import Arrays, Model
from edgekit_onnxruntime.loading import open_session
from edgekit_onnxruntime.session import first_line, runtime_errors, session_options


class SessionRunner:
    """A model in ONNX Runtime's CPU provider.

    Args:
        path: The ``.onnx`` or ``.ort`` file.
        threads: Threads inside an operator.
        takes_turns: Whether other models run in between, as candidates that are compared do.

    Raises:
        edgekit.errors.UnsupportedOpsError: There is no kernel for some nodes; all of them are listed.
        edgekit.errors.InputError: The file is not a model that ONNX Runtime can read.
    """

    def __init__(self, path: Path, *, threads: int = 1, takes_turns: bool = False) -> None:
        self._threads = threads
        self._path = path
        self._session = self._opened(session_options(threads=threads, takes_turns=takes_turns))

    @property
    def executed_by(self) -> str:
        """Runtime, version, the session's actual providers, file format and threads."""
        import onnxruntime

        providers = "+".join(name.removesuffix("ExecutionProvider") for name in self._session.get_providers())
        threads = f"{self._threads} thread{'s' if self._threads != 1 else ''}"
        form = self._path.suffix.removeprefix(".")
        return f"ONNX Runtime {onnxruntime.__version__}, {providers}, {form}, {threads}"

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name.

        Raises:
            edgekit.errors.InputError: A name, shape or dtype is not the model's.
            edgekit.errors.RequirementError: The model fails while it runs.
        """
        wanted = [value.name for value in self._session.get_inputs()]
        if set(feeds) != set(wanted):
            raise InputError(
                "the inputs' names are not the model's", subject=self._path, expected=wanted, found=list(feeds)
            )
        return self._run(self._session, feeds)

    def intermediates(self, feeds: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays:
        """Values inside a ``.onnx`` file, by a session with them as outputs; empty for a ``.ort`` file.

        Raises:
            edgekit.errors.RequirementError: ONNX Runtime does not execute the model with these outputs.
            edgekit.errors.InputError: The model fails while it runs.
        """
        if self._path.suffix != ".onnx":
            return {}
        model = showing(self._path, names)
        used = {spec.name for spec in model.inputs}
        session = self._opened_model(model, session_options(threads=self._threads))
        return self._run(session, {name: array for name, array in feeds.items() if name in used})

    def _opened(self, options: Any) -> Any:
        """A session of the file."""
        return open_session(self._path, options)

    def _opened_model(self, model: Model, options: Any) -> Any:
        """A session of another model, with the provider that executes the file."""
        return reference.open_session(model, options)

    def _run(self, session: Any, feeds: Mapping[str, np.ndarray]) -> Arrays:
        names = [value.name for value in session.get_outputs()]
        try:
            results = session.run(names, dict(feeds))
        except runtime_errors() as error:
            raise InputError(f"ONNX Runtime cannot run the model: {first_line(error)}", subject=self._path) from error
        return dict(zip(names, results, strict=True))
