"""The public interface of the runtime: load a package, run it."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

import edgekit
from edgekit.errors import InputError
from edgekit_mlruntime.border import Border, Port, border_of, state_types
from edgekit_mlruntime.executor import FunctionPlan, Observer, Step
from edgekit_mlruntime.package import read_package
from edgekit_mlruntime.precision import hold
from edgekit_mlruntime.program import Array, Function, Program, TensorType
from edgekit_mlruntime.registry import StateBuffer
from edgekit_mlruntime.wide_integers import is_wide, require_fit

_IN_HALF = "_cast_fp16"
"""The suffix that coremltools appends to the name of a value that it computes in float16."""

Precision = Literal["declared", "float32"]


class State:
    """The states of one session of a stateful model; made by ``Runner.make_state``, initially zero."""

    def __init__(self, types: Mapping[str, TensorType], *, rounds: bool) -> None:
        self._types = types
        self._rounds = rounds
        self.buffers = {
            name: StateBuffer(hold(np.zeros(_static_shape(kind)), kind.dtype, rounds=False))
            for name, kind in types.items()
        }

    def read_state(self, name: str) -> Array:
        """The content of a state, in its declared type."""
        return _declared(self._buffer(name).value, self._types[name], rounds=self._rounds).copy()

    def write_state(self, name: str, value: Array) -> None:
        """Replace the content of a state.

        Raises:
            InputError: The model has no such state, or the value does not have the state's shape.
        """
        buffer = self._buffer(name)
        array = np.asarray(value)
        if array.shape != buffer.value.shape:
            raise InputError("wrong shape", subject=f"state {name!r}", expected=buffer.value.shape, found=array.shape)
        buffer.value = hold(array, self._types[name].dtype, rounds=self._rounds).copy()

    def _buffer(self, name: str) -> StateBuffer:
        if name not in self.buffers:
            raise InputError("no such state", subject=name, expected=", ".join(sorted(self.buffers)) or "no states")
        return self.buffers[name]


class Runner:
    """Executes one function of an ML Program.

    Args:
        program: The program.
        function: Name of the function; None for the default one.
        precision: "declared" rounds where the program's types say so; "float32" computes float16 programs in float32.
        seed: Seed of the random operations that specify none.
        subject: What error messages name as their subject: the package.

    Raises:
        InputError: The program has no such function.
        UnsupportedOpsError: The function has operations that the runtime lacks; the error lists all of them.
    """

    def __init__(
        self,
        program: Program,
        function: str | None = None,
        *,
        precision: Precision = "declared",
        seed: int = 0,
        subject: object = None,
    ) -> None:
        if precision not in ("declared", "float32"):
            raise InputError("unknown precision", subject=subject, expected="declared or float32", found=precision)
        self._rounds = precision == "declared"
        self._function = _find_function(program, function, subject)
        self._plan = FunctionPlan(self._function, rounds_to_half=self._rounds, seed=seed, subject=subject)
        self._border: Border = border_of(program, self._function, rounds=self._rounds)
        self._state_types = state_types(self._function)
        self._is_wide = is_wide(port.dtype for port in (*self._border.inputs, *self._border.outputs))
        self._lock = threading.Lock()

    @property
    def executed_by(self) -> str:
        """The runtime, its version, the device and the precision."""
        precision = "float16 where the program declares it" if self._rounds else "float32 throughout"
        return f"EdgeKit reference runtime for Core ML {edgekit.__version__} (CPU, {precision})"

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
        """Whether the function has states, which :meth:`run` then needs."""
        return bool(self._state_types)

    def make_state(self) -> State:
        """States of a stateful model, filled with zeros."""
        return State(self._state_types, rounds=self._rounds)

    def run(
        self, feeds: Mapping[str, Array], state: State | None = None, *, observer: Observer | None = None
    ) -> dict[str, Any]:
        """Execute the function once.

        Args:
            feeds: Every input by name.
            state: From ``make_state``, for stateful models; changed by the run.
            observer: Called after every operation with its step, the frame that it read from and its outputs.

        Returns:
            Every output by name: arrays; for classifiers the label and a dictionary of probabilities.

        Raises:
            InputError: An input or state is missing, unknown, or of the wrong shape or type.
            ExecutionError: An operation cannot be computed on its inputs, or, in a model with 64-bit integers at its
                border, results in an integer that does not fit int32.
        """
        if self._state_types and state is None:
            raise InputError("the model has states", expected="state=runner.make_state()", found="no state")
        arguments = self._border.arguments(feeds)
        buffers = state.buffers if state is not None else {}
        if buffers.keys() != self._state_types.keys():
            raise InputError("the state is of another model", expected=sorted(self._state_types), found=sorted(buffers))
        values = [
            buffers[declared.name] if declared.name in self._state_types else arguments[declared.name]
            for declared in self._function.inputs
        ]
        with self._lock:
            results = self._plan.run(values, _both(require_fit, observer) if self._is_wide else observer)
        return self._border.results(results)

    def native_feeds(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the arrays that the program gets for these inputs, by native name; float16 is held as float32.

        Raises:
            InputError: An input is missing, unknown, or of the wrong shape or type.
        """
        return self._border.arguments(feeds)

    def intermediates(self, feeds: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
        """Returns values inside the program by their ONNX names, from which the program's names are derived.

        Names that become the same identifier in the program are left out, as are names that it does not have. float16
        values are returned as float32.

        Raises:
            InputError: An input is missing, unknown, or of the wrong shape or type, or the model has states.
        """
        return self.run_showing(feeds, names)[1]

    def run_showing(
        self, feeds: Mapping[str, Array], names: Sequence[str], *, observer: Observer | None = None
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Returns the outputs of :meth:`run` and the values of :meth:`intermediates`, from one run.

        Args:
            feeds: Every input by name.
            names: ONNX names of the values inside the program.
            observer: Called after every operation, before the operation's values are recorded.
        """
        written: dict[str, list[str]] = {}
        for name in names:
            written.setdefault(_identifier(name), []).append(name)
        wanted = {identifier: alike[0] for identifier, alike in written.items() if len(alike) == 1}
        made = {
            operation.name: [wanted.get(output.name.removesuffix(_IN_HALF)) for output in operation.outputs]
            for operation in self._function.block.operations
        }
        shown: dict[str, Array] = {}

        def show(step: Step, _frame: Sequence[Any], results: Sequence[Any]) -> None:
            for name, value in zip(made.get(step.call.name, ()), results, strict=False):
                if name is not None and isinstance(value, np.ndarray):
                    shown[name] = value.copy()

        outputs = self.run(feeds, observer=show if observer is None else _both(observer, show))
        return outputs, shown


def _both(first: Observer, second: Observer | None) -> Observer:
    """An observer that calls both, the first one first."""
    if second is None:
        return first

    def observe(step: Step, frame: Sequence[Any], results: list[Any]) -> None:
        first(step, frame, results)
        second(step, frame, results)

    return observe


def _identifier(name: str) -> str:
    """The identifier that an ONNX name becomes in a program: letters, digits and underscores, no digit in front."""
    text = re.sub(r"[^0-9A-Za-z_]", "_", name)
    return text if text and not text[0].isdigit() else f"_{text}"


def load(
    package: str | Path, function: str | None = None, *, precision: Precision = "declared", seed: int = 0
) -> Runner:
    """Load an ``.mlpackage`` for execution.

    Args:
        package: The ``.mlpackage`` folder.
        function: Name of the function to run; None for the default one.
        precision: "declared" rounds to float16 where the program declares it; "float32" does not.
        seed: Seed of the random operations that specify none.

    Raises:
        InputError: The folder is not a readable ML Program package, or the program has no such function.
        UnsupportedOpsError: The function has operations that the runtime lacks; the error lists all of them.
    """
    path = Path(package)
    return Runner(read_package(path), function, precision=precision, seed=seed, subject=path)


def _find_function(program: Program, name: str | None, subject: object) -> Function:
    wanted = name or program.default_function
    found = program.functions.get(wanted)
    if found is None:
        raise InputError(
            "no such function", subject=subject, expected=", ".join(sorted(program.functions)), found=wanted
        )
    return found


def _static_shape(kind: TensorType) -> tuple[int, ...]:
    if kind.shape is None or None in kind.shape:
        raise InputError("a state of unknown shape", found=kind)
    return tuple(size for size in kind.shape if size is not None)


def _declared(value: Array, kind: TensorType, *, rounds: bool) -> Array:
    """A held value in its declared type; float16 stays float32 in ``float32`` mode."""
    return value.astype(kind.dtype.numpy) if rounds else value
