"""Translates an ML Program, as the reference runtime's reader reads it from the package, to a Core AI program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from edgekit.errors import InternalError, OpGap, UnsupportedOpsError
from edgekit_coreai.translation.apple import authoring, dialect
from edgekit_coreai.translation.builder import Builder, named
from edgekit_coreai.translation.picture import add_entries
from edgekit_coreai.translation.registry import Call, CannotTranslate, Lowering, Parameter, find_lowering
from edgekit_coreai.translation.tensors import Tensor, element_type, tensor_type
from edgekit_mlruntime.program import (
    Binding,
    Block,
    DataType,
    Function,
    ListType,
    NamedType,
    Operation,
    StateType,
    TensorType,
    Value,
    ValueType,
)
from edgekit_mlruntime.registry import IOS_OF_OPSET

ENTRY = "main"
"""Name of the function in the Core AI program."""


class Notes(Protocol):
    """Receives notes of progress."""

    def note(self, text: str) -> None:
        """Note what is done next."""


class _Missing:
    """Placeholder for the outputs of an operation that could not be translated."""


MISSING = _Missing()


@dataclass
class State:
    """A state of the program, with the token of the last read or write translated so far."""

    handle: Any
    token: Any
    type: TensorType


def translate(
    function: Function, outputs: Sequence[str], subject: object, notes: Notes, picture: Mapping[str, Any] | None = None
) -> Any:
    """Write a function as the entry ``main`` of a Core AI program.

    Args:
        function: The function.
        outputs: Native names of the values that become outputs of the Core AI program.
        subject: What error messages name as their subject: the model.
        notes: Receives a note of each operation that is translated.
        picture: How pixels become the function's only input, for entries that take a picture; None for no such entries.

    Raises:
        UnsupportedOpsError: Operations cannot be translated; the error lists all of them.
        InternalError: An operation's results do not have the number or the shapes that the program declares.
    """
    import edgekit_coreai.translation.ops  # noqa: F401 - the families register themselves

    module = authoring.Module.create()
    with module:
        results = _Translator(function, subject, notes).run(outputs)
        if picture is not None:
            (declared,) = function.inputs
            assert isinstance(declared.type, TensorType)
            kinds = [(name, value.type) for name, value in results]
            add_entries(declared.name, declared.type, kinds, picture, ENTRY)
        return authoring.AIProgram(module)


class _Translator:
    def __init__(self, function: Function, subject: object, notes: Notes) -> None:
        self._function = function
        self._subject = subject
        self._opset = IOS_OF_OPSET.get(function.opset, 0)
        self._gaps: list[OpGap] = []
        self._notes = notes
        self._parts = set(_parts(function.block))

    def run(self, wanted: Sequence[str]) -> list[tuple[str, Any]]:
        """Write the entry; returns its results by name, as values of Apple's bindings."""
        function = self._function
        names = [declared.name for declared in function.inputs]
        graph = dialect.GraphOp(ENTRY, [_input_type(declared) for declared in function.inputs], [], names, [])
        with graph.block:
            anchor = dialect.create_token()
            self._builder = Builder(anchor.owner)
            scope: dict[str, Any] = {}
            for declared, argument in zip(function.inputs, graph.arguments, strict=True):
                if isinstance(declared.type, StateType):
                    assert isinstance(declared.type.wrapped, TensorType)
                    scope[declared.name] = State(argument, self._builder.new_token(), declared.type.wrapped)
                else:
                    scope[declared.name] = self._builder.wrap(argument)
            states = {name: scope[name] for name in names if isinstance(scope[name], State)}
            self._operations(function.block, scope)
            if self._gaps:
                raise UnsupportedOpsError(self._gaps, subject=self._subject)
            results = [(name, self._builder.raw(scope[name])) for name in wanted]
            results += [(name, state.token) for name, state in states.items()]
            graph.outputs_spec = results
        return results

    def _operations(self, block: Block, scope: dict[str, Any]) -> None:
        for operation in block.operations:
            if operation.type == "const":
                (output,) = operation.outputs
                scope[output.name] = self._constant(operation.attributes["val"])
                continue
            self._notes.note(f"translating {operation.type} {operation.name!r}")
            with named(operation.name):
                results = self._operation(operation, scope)
            for output, result in zip(operation.outputs, results, strict=True):
                scope[output.name] = result

    def _constant(self, value: Value) -> Any:
        if not isinstance(value.type, TensorType):
            return value.read()
        content = value.read()
        if isinstance(content, str) or value.type.dtype is DataType.STRING:
            return content
        target = element_type(value.type.dtype)
        return self._builder.constant(content if target is None else np.asarray(content).astype(target))

    def _operation(self, operation: Operation, scope: Mapping[str, Any]) -> list[Any]:
        bindings: dict[str, Sequence[Binding]] = dict(operation.inputs)
        bindings.update({name: [value] for name, value in operation.attributes.items()})
        inputs = {
            name: [self._constant(item) if isinstance(item, Value) else scope[item] for item in items]
            for name, items in bindings.items()
        }
        lowering = find_lowering(operation.type, self._opset)
        declared = [output.type for output in operation.outputs]
        lacking = [MISSING] * len(declared)
        if lowering is None:
            self._gap(operation, "Core AI's operations do not express it")
            self._note_gaps_inside(operation)
            return lacking
        if any(item is MISSING for items in inputs.values() for item in items):
            self._note_gaps_inside(operation)
            return lacking
        before = len(self._gaps)
        try:
            arguments = self._arguments(lowering, inputs)
            blocks = [self._nested(block, scope) for block in operation.blocks]
            is_part = any(output.name in self._parts for output in operation.outputs)
            call = Call(operation.type, operation.name, self._opset, declared, blocks, is_part)
            result = lowering.function(self._builder, call, **arguments)
        except CannotTranslate as reason:
            if len(self._gaps) == before:  # else gaps of nested operations already say why
                self._gap(operation, str(reason))
            return lacking
        results = result if isinstance(result, tuple) else () if result is None else (result,)
        if len(results) != len(declared):
            raise InternalError(
                f"{operation.type} has become {len(results)} results", subject=operation.name, expected=len(declared)
            )
        return [self._settled(operation, item, kind) for item, kind in zip(results, declared, strict=True)]

    def _gap(self, operation: Operation, reason: str) -> None:
        self._gaps.append(OpGap(op_type=operation.type, node=operation.name, reason=reason))

    def _note_gaps_inside(self, operation: Operation) -> None:
        """Note the gaps in the nested blocks of an operation that cannot be translated."""
        for block in operation.blocks:
            for inner in block.walk():
                if inner.type != "const" and find_lowering(inner.type, self._opset) is None:
                    self._gap(inner, "Core AI's operations do not express it")

    def _nested(self, block: Block, scope: Mapping[str, Any]) -> Callable[[Sequence[Any]], list[Any]]:
        def write(arguments: Sequence[Any]) -> list[Any]:
            inner = dict(scope)
            inner.update({declared.name: item for declared, item in zip(block.inputs, arguments, strict=True)})
            self._operations(block, inner)
            results = [inner[name] for name in block.outputs]
            if any(item is MISSING for item in results):
                raise CannotTranslate("one of its blocks cannot be translated")
            return results

        return write

    def _arguments(self, lowering: Lowering, inputs: Mapping[str, list[Any]]) -> dict[str, Any]:
        unknown = sorted(inputs.keys() - lowering.parameters.keys())
        if unknown:
            raise CannotTranslate(f"its input {', '.join(unknown)} is not known")
        missing = [name for name, kind in lowering.parameters.items() if kind.required and not inputs.get(name)]
        if missing:
            raise CannotTranslate(f"its input {', '.join(missing)} is missing")
        return {name: _argument(lowering.parameters[name], items) for name, items in inputs.items()}

    def _settled(self, operation: Operation, result: Any, declared: ValueType) -> Any:
        """Convert a result to its declared element type, and set its declared sizes."""
        if not isinstance(result, Tensor) or not isinstance(declared, TensorType):
            return result
        target = element_type(declared.dtype)
        if target is not None and result.dtype != target:
            result = self._builder.cast(result, target)
        shape = declared.shape
        if shape is None:
            return result
        fits = len(shape) == result.rank and all(
            want is None or have is None or want == have for want, have in zip(shape, result.shape, strict=True)
        )
        if not fits:
            raise InternalError(
                f"the translation of {operation.type} does not have the shape that the program declares",
                subject=operation.name,
                expected=shape,
                found=result.shape,
            )
        return self._builder.refined(result, shape)


def _parts(block: Block) -> Iterator[str]:
    """The values that compressed weights are computed from, except the data of ``constexpr_blockwise_shift_scale``.

    That data may itself be compressed.
    """
    for operation in block.walk():
        if operation.type.startswith("constexpr_"):
            for name, items in operation.inputs.items():
                if (operation.type, name) != ("constexpr_blockwise_shift_scale", "data"):
                    yield from (item for item in items if isinstance(item, str))


def _argument(parameter: Parameter, items: list[Any]) -> Any:
    """The argument that a lowering gets for an input."""
    if parameter.variadic:
        return items
    (item,) = items
    wanted = parameter.constant
    if wanted is None or wanted is str or not isinstance(item, Tensor):
        return item
    if item.array is None:
        raise CannotTranslate(f"its input {parameter.name} is computed by the model")
    flat = item.array.reshape(-1)
    return tuple(int(number) for number in flat) if wanted is tuple else wanted(flat[0].item())


def _input_type(declared: NamedType) -> Any:
    kind = declared.type
    if isinstance(kind, StateType):
        assert isinstance(kind.wrapped, TensorType)
        return dialect.HandleType.get(_plain_type(kind.wrapped))
    if isinstance(kind, ListType) or not isinstance(kind, TensorType):
        raise InternalError("an input of unknown kind", subject=declared.name, found=kind)
    return _plain_type(kind)


def _plain_type(kind: TensorType) -> Any:
    dtype = element_type(kind.dtype)
    assert dtype is not None
    assert kind.shape is not None
    return tensor_type(kind.shape, dtype)
