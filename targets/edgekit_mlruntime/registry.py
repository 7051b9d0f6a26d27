"""What a kernel is, and the table of all kernels.

A kernel is a function that computes one operation. Its first parameter is the ``Call``; the others are named exactly as
the operation's inputs, with MIL's documented defaults. The annotation of a parameter says what the kernel gets:

    Array               the tensor, as an array (rank 0 included)
    list[Array]         a variadic input (list[Any] where its values may be lists)
    int, float, bool    the value of a one-element tensor, as a Python scalar
    str                 a string
    Ints                an integer tensor (shape, axes, strides …), flattened to a tuple of ints
    Any                 the value as it is: a list, a dictionary
    StateBuffer         a state

Each annotation may end in ``| None``. A kernel returns an array (or NumPy scalar), or a tuple for several outputs.

Precision: values of type float16 are held as float32 arrays whose values float16 can represent. So a kernel never
sees float16: it computes in float32, and the executor rounds the results to the declared output type. In ``float32``
mode that rounding is left out. A kernel registered with ``raw=True`` only moves values, or computes them in the
declared precision (which ``call.outputs`` and ``call.rounds_to_half`` tell): its results are not rounded again.

A kernel must not write to the arrays that it gets: they may be constants, or shared. A result may be an input or a view
of one. Any other result belongs to the executor, which may round it in place: a kernel must not keep it in the cache.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from edgekit_mlruntime.program import Array, ListType, TensorType, ValueType

Ints = tuple[int, ...]

KernelFunction = Callable[..., Any]
_F = TypeVar("_F", bound=KernelFunction)

IOS_OF_OPSET = {"CoreML5": 15, "CoreML6": 16, "CoreML7": 17, "CoreML8": 18, "CoreML9": 26}
"""iOS version of each operator set, by the operator set's name."""


@dataclass
class StateBuffer:
    """The content of one state; float16 values are held as float32."""

    value: Array


class RunContext(typing.Protocol):
    """What a kernel can use of the run that it is part of."""

    @property
    def random(self) -> np.random.Generator:
        """The run's random generator."""

    def run_block(self, call: Call, index: int, arguments: Sequence[Any]) -> list[Any]:
        """Execute a nested block of an operation and return its outputs."""


@dataclass
class Call:
    """One operation of a planned function, as its kernel sees it."""

    op_type: str
    name: str
    opset: int
    """iOS version of the function's operator set: 15, 16, 17, 18, 26."""
    inputs: Mapping[str, Sequence[ValueType]]
    """Declared types of the inputs."""
    outputs: Sequence[ValueType]
    """Declared types of the outputs."""
    constant_inputs: frozenset[str]
    """Inputs whose value never changes: a kernel may keep values derived from them in ``cache``."""
    rounds_to_half: bool
    """Whether float16 results are rounded; False in ``float32`` mode."""
    context: RunContext
    cache: dict[Any, Any] = field(default_factory=dict)
    """What the kernel keeps from one run to the next, such as sessions and index plans."""

    @property
    def output(self) -> TensorType:
        """Declared type of the only output, a tensor."""
        (declared,) = self.outputs
        assert isinstance(declared, TensorType)
        return declared

    @property
    def element(self) -> TensorType:
        """Declared element type of the only output, a list."""
        (declared,) = self.outputs
        assert isinstance(declared, ListType)
        assert isinstance(declared.element, TensorType)
        return declared.element

    def input_type(self, name: str) -> TensorType:
        """Declared type of a tensor input."""
        (declared,) = self.inputs[name]
        assert isinstance(declared, TensorType)
        return declared

    def run_block(self, index: int, arguments: Sequence[Any] = ()) -> list[Any]:
        """Execute a nested block and return its outputs."""
        return self.context.run_block(self, index, arguments)


@dataclass(frozen=True)
class Parameter:
    """An input of a kernel."""

    convert: Callable[[Any], Any] | None
    """Converts a value to the annotated form; None if the kernel gets the value unchanged."""
    variadic: bool
    required: bool


@dataclass(frozen=True)
class Kernel:
    """A registered kernel."""

    function: KernelFunction
    opset: int
    raw: bool
    parameters: Mapping[str, Parameter]


_KERNELS: dict[str, list[Kernel]] = {}


def kernel(*names: str, opset: int = 15, raw: bool = False) -> Callable[[_F], _F]:
    """Register a function as the kernel of the named operations.

    Args:
        names: Operation types.
        opset: First iOS version whose operator set gives the operation this meaning.
        raw: Whether the executor leaves the results unrounded (see the module's docstring).
    """

    def register(function: _F) -> _F:
        entry = Kernel(function, opset, raw, _parameters(function))
        for name in names:
            versions = _KERNELS.setdefault(name, [])
            if any(version.opset == opset for version in versions):
                raise ValueError(f"two kernels for {name} from iOS {opset} on")
            versions.append(entry)
        return function

    return register


def find_kernel(name: str, opset: int) -> Kernel | None:
    """The kernel of an operation under the operator set of iOS ``opset``, or None if there is no kernel."""
    candidates = [entry for entry in _KERNELS.get(name, ()) if entry.opset <= opset]
    return max(candidates, key=lambda entry: entry.opset, default=None)


def registered_operations() -> tuple[str, ...]:
    """The operations that have a kernel, in alphabetical order."""
    import edgekit_mlruntime.kernels  # noqa: F401 - the families register themselves

    return tuple(sorted(_KERNELS))


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.ndarray) else value


def _ints(value: Any) -> Ints:
    return tuple(value.reshape(-1).tolist()) if isinstance(value, np.ndarray) else tuple(value)


def _parameters(function: KernelFunction) -> dict[str, Parameter]:
    """The inputs that a kernel's signature declares, by name."""
    hints = typing.get_type_hints(function)
    first, *others = inspect.signature(function).parameters.values()
    if hints.get(first.name) is not Call:
        raise TypeError(f"{function.__name__}: the first parameter is the Call")
    return {
        parameter.name: _parameter(hints[parameter.name], parameter.default is inspect.Parameter.empty)
        for parameter in others
    }


def _parameter(annotation: Any, required: bool) -> Parameter:
    """How an input is passed to the kernel, according to its annotation."""
    kinds = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    (kind,) = (kind for kind in kinds if kind is not type(None))
    if kind in (int, float, bool):
        return Parameter(_item, variadic=False, required=required)
    if kind == Ints:
        return Parameter(_ints, variadic=False, required=required)
    return Parameter(None, variadic=typing.get_origin(kind) is list, required=required)
