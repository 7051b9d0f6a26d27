"""The border between applications and a program: names, types and shapes on either side.

A model whose metadata has the key ``edgekit.io`` takes and returns the inputs and outputs of the ONNX model that it was
made from. The entry is JSON with the lists ``inputs`` and ``outputs``, whose items hold ``name``, ``dtype`` and
``shape`` of the ONNX side and ``native_name``, ``native_dtype`` and ``native_shape`` of the program's side. Other
models take and return what their programs declare.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgekit.errors import InputError
from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.picture import Picture
from edgekit_mlruntime.precision import hold
from edgekit_mlruntime.program import (
    Array,
    DataType,
    Feature,
    Function,
    FunctionInterface,
    Program,
    StateType,
    TensorType,
)

IO_KEY = "edgekit.io"
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

Shape = tuple[int | str | None, ...]


@dataclass(frozen=True)
class Port:
    """An input or output as the caller sees it."""

    name: str
    dtype: str
    """NumPy's name of the element type; ``str`` or ``dict`` if the value is not a tensor."""
    shape: Shape | None
    """Size of each dimension, None or a name if that size is free; None in place of the tuple if the rank is free."""


@dataclass(frozen=True)
class _Native:
    """An input or output as the program sees it."""

    name: str
    kind: TensorType | None
    feature: Feature | None
    picture: Picture | None = None
    """How pixels become the array that the caller feeds, or None if the input is not a picture."""


class Border:
    """Converts feeds to the program's inputs, and the program's outputs to results.

    Args:
        inputs: Each input as the caller sees it and as the program sees it, in any order.
        outputs: Each output as the caller sees it, as the program sees it, and its position among the program's
            outputs.
        rounds: Whether float16 values are rounded to float16 and returned in that type.
        exact_types: Whether feeds must have exactly the declared types.
    """

    def __init__(
        self,
        inputs: Sequence[tuple[Port, _Native]],
        outputs: Sequence[tuple[Port, _Native, int]],
        *,
        rounds: bool,
        exact_types: bool,
    ) -> None:
        self.inputs = tuple(port for port, _ in inputs)
        self.outputs = tuple(port for port, _, _ in outputs)
        self._inputs = inputs
        self._outputs = outputs
        self._rounds = rounds
        self._exact_types = exact_types

    def arguments(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the program's inputs by native name, in the form in which values are held.

        Raises:
            InputError: An input is missing, unknown, of the wrong shape or type, or out of range.
        """
        unknown = sorted(feeds.keys() - {port.name for port in self.inputs})
        if unknown:
            names = ", ".join(port.name for port in self.inputs)
            raise InputError("no such input", subject=", ".join(unknown), expected=names or "no inputs")
        return {native.name: self._argument(port, native, feeds) for port, native in self._inputs}

    def _argument(self, port: Port, native: _Native, feeds: Mapping[str, Array]) -> Array:
        assert native.kind is not None
        if port.name not in feeds:
            default = native.feature.optional_default if native.feature is not None else None
            if native.feature is None or default is None:
                raise InputError("input is missing", subject=port.name, expected=f"{port.dtype} {port.shape}")
            return hold(np.full(native.feature.shape, default), native.kind.dtype, rounds=self._rounds)
        array = np.asarray(feeds[port.name])
        self._check_type(port, array)
        if native.picture is not None:
            _require_shape(port, array)
            array = native.picture.pixels(array)
            port = replace(port, shape=native.kind.shape)
        array = _checked_shape(port, native, array)
        return hold(_in_range(port, array, native.kind.dtype), native.kind.dtype, rounds=self._rounds)

    def _check_type(self, port: Port, array: Array) -> None:
        wanted = np.dtype(port.dtype)
        fits = array.dtype == wanted if self._exact_types else np.can_cast(array.dtype, wanted, "same_kind")
        if not fits:
            raise InputError(
                "wrong element type",
                subject=f"input {port.name!r}",
                expected=wanted.name,
                found=array.dtype.name,
                hint=f"convert it with .astype({wanted.name!r}) if that loses nothing that matters",
            )

    def results(self, values: Sequence[Any]) -> dict[str, Any]:
        """The outputs, by the callers' names, in the callers' types."""
        return {port.name: self._result(port, native, values[index]) for port, native, index in self._outputs}

    def _result(self, port: Port, native: _Native, value: Any) -> Any:
        if native.kind is None or not isinstance(value, np.ndarray):
            return value
        if native.feature is not None and native.feature.kind == "int64Type":
            return int(value)
        shape = port.shape
        fixed = [size for size in shape if isinstance(size, int)] if shape is not None else []
        if shape is not None and len(fixed) == len(shape):
            if 0 not in fixed and value.size != math.prod(fixed):
                raise ExecutionError(
                    "an output does not have the shape that the model states",
                    operation=f"output {port.name!r}",
                    expected=tuple(fixed),
                    found=value.shape,
                )
            # Core ML has no tensors without elements: the program returns a placeholder, which is replaced here.
            value = np.zeros(fixed) if 0 in fixed else value.reshape(fixed)
        # A fresh array: the value may be a view of a feed, a state or a constant.
        return value.astype(np.dtype(port.dtype), order="C", copy=True)


def border_of(program: Program, function: Function, *, rounds: bool) -> Border:
    """The border of a function: in ONNX terms if the metadata has the key ``edgekit.io``, else in native terms."""
    interface = program.interfaces.get(function.name, FunctionInterface((), (), ()))
    kinds = _output_types(function)
    inputs = {
        declared.name: _Native(declared.name, declared.type, _feature(interface.inputs, declared.name))
        for declared in function.inputs
        if isinstance(declared.type, TensorType)
    }
    outputs = [
        _Native(name, kind, _feature(interface.outputs, name))
        for name, kind in zip(function.block.outputs, kinds, strict=True)
    ]
    record = program.user_metadata.get(IO_KEY)
    if record is None:
        return Border(
            [(_native_port(native, rounds=rounds), native) for native in inputs.values()],
            [(_native_port(native, rounds=rounds), native, index) for index, native in enumerate(outputs)],
            rounds=rounds,
            exact_types=False,
        )
    try:
        document = json.loads(record)
        positions = {native.name: index for index, native in enumerate(outputs)}
        pairs = [(_recorded_port(item), _recorded_input(item, inputs)) for item in document["inputs"]]
        found = [(_recorded_port(item), positions[item["native_name"]]) for item in document["outputs"]]
        results = [(port, outputs[index], index) for port, index in found]
        # Outputs that the ONNX model lacks (such as the class as a text) keep their native names.
        recorded = {index for _, index in found}
        results += [
            (_native_port(native, rounds=rounds), native, index)
            for index, native in enumerate(outputs)
            if index not in recorded
        ]
        return Border(pairs, results, rounds=rounds, exact_types=True)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            "the model's record of its inputs and outputs does not fit the model",
            subject=f"metadata {IO_KEY!r}",
            found=repr(error),
        ) from error


def _output_types(function: Function) -> list[TensorType | None]:
    """Types of a function's outputs; None for an output that is not a numeric tensor."""
    types = {declared.name: declared.type for declared in function.inputs}
    for operation in function.block.operations:
        types.update({output.name: output.type for output in operation.outputs})
    found = [types.get(name) for name in function.block.outputs]
    return [kind if isinstance(kind, TensorType) and kind.dtype is not DataType.STRING else None for kind in found]


def _feature(features: Sequence[Feature], name: str) -> Feature | None:
    return next((feature for feature in features if feature.name == name), None)


def _native_port(native: _Native, *, rounds: bool) -> Port:
    if native.kind is None:
        kind = native.feature.kind if native.feature is not None else ""
        return Port(native.name, "dict" if kind == "dictionaryType" else "str", None)
    dtype = native.kind.dtype
    held = np.dtype(np.float32) if dtype is DataType.FLOAT16 and not rounds else dtype.numpy
    return Port(native.name, held.name, native.kind.shape)


def _recorded_port(item: Mapping[str, Any]) -> Port:
    return Port(item["name"], item["dtype"], tuple(item["shape"]))


def _recorded_input(item: Mapping[str, Any], inputs: Mapping[str, _Native]) -> _Native:
    native = inputs[item["native_name"]]
    return replace(native, picture=Picture(**item["picture"])) if "picture" in item else native


def _checked_shape(port: Port, native: _Native, array: Array) -> Array:
    """Returns the array in the program's shape.

    Raises:
        InputError: The array does not have the declared shape.
    """
    assert native.kind is not None
    shape = port.shape
    # Core ML has no inputs of rank 0: callers may pass them with one dimension.
    if shape == () and array.shape == (1,):
        array = array.reshape(())
    _require_shape(port, array)
    target = native.kind.shape
    if array.size == 0 and target is not None:
        # Core ML has no tensors without elements: the program gets a placeholder that no operation reads.
        return np.zeros([1 if size is None else size for size in target], array.dtype)
    if target is not None and len(target) != array.ndim:
        array = _reshaped(array, target)
    feature = native.feature
    if feature is not None and feature.enumerated_shapes and array.shape not in feature.enumerated_shapes:
        raise InputError(
            "not one of the shapes that the model takes",
            subject=f"input {port.name!r}",
            expected=" or ".join(map(str, feature.enumerated_shapes)),
            found=array.shape,
        )
    if feature is not None and feature.shape_ranges and not _in_ranges(array.shape, feature.shape_ranges):
        ranges = ", ".join(f"{low}..{'' if high is None else high}" for low, high in feature.shape_ranges)
        raise InputError(
            "shape out of the range that the model takes",
            subject=f"input {port.name!r}",
            expected=ranges,
            found=array.shape,
        )
    return array


def _require_shape(port: Port, array: Array) -> None:
    """Raise InputError if the array does not have the port's shape."""
    if port.shape is not None and not _matches(port.shape, array.shape):
        raise InputError("wrong shape", subject=f"input {port.name!r}", expected=port.shape, found=array.shape)


def _matches(wanted: Shape, found: tuple[int, ...]) -> bool:
    """Whether a shape fits a declaration; dimensions declared as None or by a name fit any size."""
    return len(wanted) == len(found) and all(
        not isinstance(want, int) or want == got for want, got in zip(wanted, found, strict=True)
    )


def _in_ranges(shape: tuple[int, ...], ranges: Sequence[tuple[int, int | None]]) -> bool:
    return len(shape) == len(ranges) and all(
        low <= size and (high is None or size <= high) for size, (low, high) in zip(shape, ranges, strict=True)
    )


def _reshaped(array: Array, target: tuple[int | None, ...]) -> Array:
    """The array in a native shape of another rank (the ranks 0 and above 5 do not exist natively)."""
    known = math.prod(size for size in target if size is not None)
    free = [size is None for size in target].count(True)
    if free > 1 or (not free and known != array.size):
        raise InputError("cannot bring an input into the program's shape", expected=target, found=array.shape)
    return array.reshape([-1 if size is None else size for size in target])


def _in_range(port: Port, array: Array, dtype: DataType) -> Array:
    """Returns the array unchanged if the program's type can hold its integers or doubles.

    Raises:
        InputError: A value does not fit the program's type.
    """
    target = dtype.numpy
    if array.dtype == np.float64:
        largest = float(np.max(np.abs(array), where=np.isfinite(array), initial=0.0))
        if largest > _LARGEST_FLOAT32:
            raise InputError(
                "a value does not fit the program's floating-point type",
                subject=f"input {port.name!r}",
                expected=f"at most {_LARGEST_FLOAT32:g}",
                found=f"{largest:g}",
            )
    if array.dtype.kind not in "iu" or target.kind not in "iu" or np.can_cast(array.dtype, target):
        return array
    limits = np.iinfo(target)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        raise InputError(
            "a value does not fit the program's integer type",
            subject=f"input {port.name!r}",
            expected=f"{target.name}: {limits.min} to {limits.max}",
            found=f"{array.min()} to {array.max()}",
        )
    return array


def state_types(function: Function) -> dict[str, TensorType]:
    """Returns the types of the states that a function takes, by name."""
    return {
        declared.name: declared.type.wrapped
        for declared in function.inputs
        if isinstance(declared.type, StateType) and isinstance(declared.type.wrapped, TensorType)
    }
