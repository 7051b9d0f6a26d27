"""An ML Program as plain data: the content of the package's protobuf as dataclasses."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class DataType(enum.IntEnum):
    """MIL's element types, numbered as in the protobuf."""

    BOOL = 1
    STRING = 2
    FLOAT16 = 10
    FLOAT32 = 11
    FLOAT64 = 12
    BFLOAT16 = 13
    INT8 = 21
    INT16 = 22
    INT32 = 23
    INT64 = 24
    INT4 = 25
    UINT8 = 31
    UINT16 = 32
    UINT32 = 33
    UINT64 = 34
    UINT4 = 35
    UINT2 = 36
    UINT1 = 37
    UINT6 = 38
    UINT3 = 39
    FLOAT8E4M3FN = 40
    FLOAT8E5M2 = 41

    @property
    def is_float(self) -> bool:
        """Whether values are floating-point numbers."""
        return self in _FLOATS

    @property
    def bits(self) -> int:
        """Width of an element in a weight file; 8 for bool, 0 for strings."""
        if self is DataType.STRING:
            return 0
        return _SUB_BYTE_BITS.get(self) or self.numpy.itemsize * 8

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type that holds one element: the same type, or the next wider one for sub-byte integers.

        Raises:
            KeyError: NumPy has no type for it (bfloat16, float8).
        """
        return np.dtype(_NUMPY_NAMES[self])


_FLOATS = frozenset(
    {
        DataType.FLOAT16,
        DataType.FLOAT32,
        DataType.FLOAT64,
        DataType.BFLOAT16,
        DataType.FLOAT8E4M3FN,
        DataType.FLOAT8E5M2,
    }
)
_SUB_BYTE_BITS = {
    DataType.INT4: 4,
    DataType.UINT1: 1,
    DataType.UINT2: 2,
    DataType.UINT3: 3,
    DataType.UINT4: 4,
    DataType.UINT6: 6,
}
_NUMPY_NAMES = {
    DataType.BOOL: "bool",
    DataType.STRING: "object",
    DataType.FLOAT16: "float16",
    DataType.FLOAT32: "float32",
    DataType.FLOAT64: "float64",
    DataType.INT8: "int8",
    DataType.INT16: "int16",
    DataType.INT32: "int32",
    DataType.INT64: "int64",
    DataType.UINT8: "uint8",
    DataType.UINT16: "uint16",
    DataType.UINT32: "uint32",
    DataType.UINT64: "uint64",
    DataType.INT4: "int8",
    **dict.fromkeys((DataType.UINT1, DataType.UINT2, DataType.UINT3, DataType.UINT4, DataType.UINT6), "uint8"),
}


@dataclass(frozen=True)
class TensorType:
    """A tensor's element type and shape."""

    dtype: DataType
    shape: tuple[int | None, ...] | None
    """Size of each dimension, None if known only at run time; None in place of the tuple if the rank is unknown."""


@dataclass(frozen=True)
class ListType:
    """A list whose elements all have the same type; ``length`` is None if unknown."""

    element: ValueType
    length: int | None


@dataclass(frozen=True)
class DictionaryType:
    """A dictionary, as classifiers return it."""

    key: ValueType
    value: ValueType


@dataclass(frozen=True)
class TupleType:
    """A tuple of values."""

    elements: tuple[ValueType, ...]


@dataclass(frozen=True)
class StateType:
    """A buffer that survives from one run to the next."""

    wrapped: ValueType


ValueType = TensorType | ListType | DictionaryType | TupleType | StateType


@dataclass(frozen=True)
class Value:
    """A constant of the program."""

    type: ValueType
    read: Callable[[], Any]
    """Returns a tensor as an array of ``type.dtype.numpy`` (memory-mapped if it is in the weight file), a rank-0 string
    as str, a list or tuple as a Python list of these."""


@dataclass(frozen=True)
class NamedType:
    """The name and type of an input or output."""

    name: str
    type: ValueType


Binding = str | Value
"""The value of an operation's input: the name of an earlier result, or a constant."""


@dataclass(frozen=True)
class Operation:
    """One operation."""

    type: str
    name: str
    inputs: Mapping[str, Sequence[Binding]]
    outputs: Sequence[NamedType]
    blocks: Sequence[Block] = ()
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """Operations in order of execution; ``outputs`` are the names of the values that the block returns."""

    inputs: Sequence[NamedType]
    outputs: Sequence[str]
    operations: Sequence[Operation]

    def walk(self) -> Iterator[Operation]:
        """All operations, those of nested blocks included."""
        for operation in self.operations:
            yield operation
            for block in operation.blocks:
                yield from block.walk()


@dataclass(frozen=True)
class Function:
    """A function of the program."""

    name: str
    inputs: Sequence[NamedType]
    opset: str
    """Core ML's name of the operator set: CoreML5 (iOS 15) and later."""
    block: Block


@dataclass(frozen=True)
class Feature:
    """An input, output or state as the model's description declares it to applications."""

    name: str
    kind: str
    """``multiArrayType``, ``imageType``, ``dictionaryType``, ``stringType``, ``int64Type``, ``stateType``, …"""
    optional_default: float | int | None = None
    """The value that fills an optional input that is left out, or None if the input is required."""
    shape: tuple[int, ...] = ()
    """Default shape of a multi-array."""
    enumerated_shapes: tuple[tuple[int, ...], ...] = ()
    shape_ranges: tuple[tuple[int, int | None], ...] = ()
    """Lowest and highest size of each dimension (None: no upper bound); empty if the shape is not a range."""


@dataclass(frozen=True)
class FunctionInterface:
    """What the model's description says about one function."""

    inputs: Sequence[Feature]
    outputs: Sequence[Feature]
    states: Sequence[Feature]


@dataclass(frozen=True)
class Program:
    """A whole ML Program with its description."""

    specification_version: int
    functions: Mapping[str, Function]
    interfaces: Mapping[str, FunctionInterface]
    default_function: str
    user_metadata: Mapping[str, str]
