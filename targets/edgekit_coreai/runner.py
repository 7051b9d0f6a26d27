"""Executes Core AI models with Apple's runtime, in a separate process."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.errors import InputError
from edgekit.files.atomic import temporary_folder
from edgekit.processes.supervision import slow_step
from edgekit_coreai.availability import executed_by
from edgekit_coreai.conversion import translate_package
from edgekit_coreai.interface import INTERFACE_KEY, program_of, user_metadata
from edgekit_coreai.process import CoreAICrashError, Process, shared
from edgekit_mlprogram.conversion import is_package
from edgekit_mlruntime.border import IO_KEY, Port, border_of, state_types
from edgekit_mlruntime.program import Array, TensorType

EXECUTION_SECONDS = 600.0
"""Time limit of one run, in seconds, generous because Apple's runtime emulates float16 on Linux: a Whisper encoder on
8 s of sound takes 120 s of processor time in float16, 1 s in float32."""


class State:
    """The states of one session of a stateful model; made by ``Runner.make_state``, initially zero."""

    def __init__(self, types: Mapping[str, TensorType]) -> None:
        self.buffers = {
            name: np.zeros([size or 1 for size in kind.shape or ()], kind.dtype.numpy) for name, kind in types.items()
        }

    def read_state(self, name: str) -> Array:
        """The content of a state, in its declared type."""
        return self._buffer(name).copy()

    def _buffer(self, name: str) -> Array:
        if name not in self.buffers:
            raise InputError("no such state", subject=name, expected=", ".join(sorted(self.buffers)) or "no states")
        return self.buffers[name]


class Runner:
    """Executes one Core AI model.

    Args:
        path: The ``.aimodel`` folder.
        process: The process that runs Apple's code; by default the process that all runners share.

    Raises:
        edgekit.errors.InputError: The folder is not a readable model, or Core AI is not installed.
        CoreAICrashError: Apple's compiler refuses the model or ends its process.
    """

    def __init__(self, path: Path, process: Process | None = None) -> None:
        self._path = path.resolve()
        if not (self._path / "metadata.json").is_file():
            raise InputError("not a Core AI model", subject=path, expected="a folder .aimodel with a metadata.json")
        self._process = process or shared()
        described = self._open()
        metadata = user_metadata(self._path)
        user = {IO_KEY: metadata[IO_KEY]} if IO_KEY in metadata else {}
        program = program_of(metadata.get(INTERFACE_KEY), described, user)
        function = program.functions["main"]
        self._kinds = {item.name: item.type for item in function.inputs if isinstance(item.type, TensorType)}
        self._fed = frozenset(name for name, _, _ in described["inputs"])
        self._border = border_of(program, function, rounds=True)
        self._outputs = list(function.block.outputs)
        self._state_types = state_types(function)

    def _open(self) -> dict[str, Any]:
        number, described = self._process.ask(self._path, "open", self._path)
        self._opened = (self._process.generation, number)
        weakref.finalize(self, _close, self._process, self._opened)
        return dict(described)

    @property
    def executed_by(self) -> str:
        """The runtime, its version, the device and the system."""
        return executed_by()

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Names, dtypes and shapes of the inputs."""
        return self._border.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Names, dtypes and shapes of the outputs."""
        return self._border.outputs

    @property
    def has_states(self) -> bool:
        """Whether the model has states, which :meth:`run` then needs."""
        return bool(self._state_types)

    def make_state(self) -> State:
        """States of a stateful model, filled with zeros."""
        return State(self._state_types)

    def run(self, feeds: Mapping[str, Array], state: State | None = None) -> dict[str, Any]:
        """Execute the model once.

        Args:
            feeds: Every input by ONNX name.
            state: From ``make_state``, for stateful models; changed by the run.

        Returns:
            Every output by ONNX name.

        Raises:
            edgekit.errors.InputError: An input or state is missing, unknown, or of the wrong shape or type.
            CoreAICrashError: Apple's runtime refuses the model or its inputs, or ends its process.
        """
        if self._state_types and state is None:
            raise InputError("the model has states", expected="state=runner.make_state()", found="no state")
        buffers = state.buffers if state is not None else {}
        if buffers.keys() != self._state_types.keys():
            raise InputError("the state is of another model", expected=sorted(self._state_types), found=sorted(buffers))
        held = self._border.arguments(feeds)
        # Apple's compiler drops inputs that nothing reads.
        fed = {name: array.astype(self._kinds[name].dtype.numpy) for name, array in held.items() if name in self._fed}
        generation, number = self._opened
        if generation != self._process.generation:
            self._open()
            number = self._opened[1]
        with slow_step(EXECUTION_SECONDS):
            results, after = self._process.ask(self._path, "run", number, fed, dict(buffers))
        if state is not None:
            state.buffers = {name: after[name] for name in state.buffers}
        return self._border.results([results[name] for name in self._outputs])


def _close(process: Process, opened: tuple[int, int]) -> None:
    generation, number = opened
    if process.generation == generation and process.is_running:
        try:
            process.ask("", "close", number)
        except CoreAICrashError:
            return  # a model of a process that has crashed is closed too


def load(path: str | Path) -> Runner:
    """Returns a runner that executes a model with Apple's runtime.

    Args:
        path: An ``.aimodel``; or an ``.mlpackage``, which is translated into a temporary folder first.

    Raises:
        edgekit.errors.UnsupportedOpsError: Operations of the package cannot be translated; the error lists all of them.
        edgekit.errors.InputError: The path is not a readable model, or Core AI is not installed.
        CoreAICrashError: Apple's compiler refuses the model or ends its process.
    """
    if not is_package(Path(path)):
        return Runner(Path(path))
    with ExitStack() as stack:
        runner = Runner(translate_package(Path(path), stack.enter_context(temporary_folder()) / "model"))
        weakref.finalize(runner, stack.pop_all().close)
    return runner
