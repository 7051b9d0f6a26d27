"""What a lowering is, and the table of all lowerings.

A lowering is a function that translates one MIL operation to Core AI's operations. Its first two parameters are the
:class:`~edgekit_coreai.translation.builder.Builder` and the :class:`Call`; the others are named exactly as the
operation's inputs, with MIL's documented defaults. The annotation of a parameter says what the lowering gets:

    Tensor              the tensor; its ``array`` is None where the value is computed by the model
    list[Tensor]        a variadic input
    int, float, bool    the value of a constant of one element
    str                 a constant string
    Ints                a constant integer tensor, flattened to a tuple of ints
    Any                 the value as it is: a state, a list

Each annotation may end in ``| None``. A lowering returns a tensor, or a tuple for several outputs; the translator
converts the results to the declared element type.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.tensors import Tensor
from edgekit_mlruntime.program import ListType, TensorType, ValueType

Ints = tuple[int, ...]
_F = TypeVar("_F", bound=Callable[..., Any])


class CannotTranslate(Exception):  # noqa: N818 - it is caught and becomes a gap
    """An operation has a lowering, but not for its inputs or attributes; the message says which are not supported."""


@dataclass(frozen=True)
class Call:
    """One operation of the program, as its lowering sees it."""

    op_type: str
    name: str
    opset: int
    """iOS version of the function's operator set."""
    outputs: Sequence[ValueType]
    """Declared types of the outputs."""
    blocks: Sequence[Callable[[Sequence[Any]], list[Any]]] = ()
    """For each nested block a function that writes the block at the current place and returns its outputs."""
    is_part: bool = False
    """Whether another compressed weight is computed from the result, which then has to be a constant."""

    @property
    def output(self) -> TensorType:
        """Declared type of the only output, a tensor."""
        (declared,) = self.outputs
        assert isinstance(declared, TensorType)
        return declared

    def output_type(self, index: int) -> TensorType:
        """Declared type of one of the outputs, a tensor."""
        declared = self.outputs[index]
        assert isinstance(declared, TensorType)
        return declared

    @property
    def element(self) -> TensorType:
        """Declared element type of the only output, a list."""
        (declared,) = self.outputs
        assert isinstance(declared, ListType)
        assert isinstance(declared.element, TensorType)
        return declared.element


@dataclass(frozen=True)
class Parameter:
    """An input of a lowering."""

    name: str
    constant: type | None
    """The Python type that a constant is converted to, or None if the lowering gets the value itself."""
    variadic: bool
    required: bool


@dataclass(frozen=True)
class Lowering:
    """A registered lowering."""

    function: Callable[..., Any]
    opset: int
    parameters: Mapping[str, Parameter]


_LOWERINGS: dict[str, list[Lowering]] = {}


def lowering(*names: str, opset: int = 15) -> Callable[[_F], _F]:
    """Register a function as the lowering of the named operations.

    Args:
        names: MIL operation types.
        opset: First iOS version whose operator set gives the operation this meaning.
    """

    def register(function: _F) -> _F:
        entry = Lowering(function, opset, _parameters(function))
        for name in names:
            versions = _LOWERINGS.setdefault(name, [])
            if any(version.opset == opset for version in versions):
                raise ValueError(f"two lowerings for {name} from iOS {opset} on")
            versions.append(entry)
        return function

    return register


def find_lowering(name: str, opset: int) -> Lowering | None:
    """The lowering of an operation under the operator set of iOS ``opset``, or None if there is no lowering."""
    candidates = [entry for entry in _LOWERINGS.get(name, ()) if entry.opset <= opset]
    return max(candidates, key=lambda entry: entry.opset, default=None)


def lowered_operations() -> dict[str, tuple[int, ...]]:
    """Every MIL operation that has a lowering, with the iOS versions from which on its lowerings apply."""
    import edgekit_coreai.translation.ops  # noqa: F401 - the families register themselves

    return {name: tuple(sorted(entry.opset for entry in entries)) for name, entries in sorted(_LOWERINGS.items())}


def _parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    hints = typing.get_type_hints(function)
    first, second, *others = inspect.signature(function).parameters.values()
    if (hints.get(first.name), hints.get(second.name)) != (Builder, Call):
        raise TypeError(f"{function.__name__}: the first parameters are the Builder and the Call")
    return {
        parameter.name: _parameter(parameter.name, hints[parameter.name], parameter.default is inspect.Parameter.empty)
        for parameter in others
    }


def _parameter(name: str, annotation: Any, required: bool) -> Parameter:
    kinds = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    (kind,) = (kind for kind in kinds if kind is not type(None))
    if kind == Ints:
        return Parameter(name, tuple, variadic=False, required=required)
    constant = kind if kind in (int, float, bool, str) else None
    return Parameter(name, constant, variadic=kind in (list[Tensor], list[Any]), required=required)
