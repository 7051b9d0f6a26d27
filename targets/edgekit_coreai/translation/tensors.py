"""Tensors of a Core AI graph, and the conversion of types and arrays between NumPy and Apple's bindings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from edgekit_coreai.translation.apple import bindings, dialect, ir, tensor_types
from edgekit_mlruntime.program import Array, DataType
from edgekit_mlruntime.weights import pack_bits

_NUMPY = {
    DataType.BOOL: np.dtype(np.bool_),
    DataType.FLOAT16: np.dtype(np.float16),
    DataType.FLOAT32: np.dtype(np.float32),
    DataType.INT8: np.dtype(np.int8),
    DataType.INT16: np.dtype(np.int16),
    DataType.INT32: np.dtype(np.int32),
    DataType.UINT8: np.dtype(np.uint8),
    DataType.UINT16: np.dtype(np.uint16),
    DataType.UINT32: np.dtype(np.uint32),
    DataType.INT4: np.dtype(ml_dtypes.int4),
    DataType.UINT4: np.dtype(ml_dtypes.uint4),
    DataType.UINT2: np.dtype(ml_dtypes.uint2),
}


def element_type(dtype: DataType) -> np.dtype[Any] | None:
    """The NumPy type of a MIL element type, or None if Core AI does not have that type."""
    return _NUMPY.get(dtype)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of the graph that is being written."""

    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    """Size of each dimension, None if known only at run time."""
    array: Array | None
    """The content of a constant, or None for a computed value."""
    _value: list[Any]
    """One item, the value in Apple's bindings; empty as long as a constant has not been written."""

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of a tensor whose shape is fully known."""
        assert self.is_static, self.shape
        return tuple(size for size in self.shape if size is not None)

    @property
    def is_static(self) -> bool:
        """Whether the whole shape is known."""
        return None not in self.shape

    @property
    def is_float(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return self.dtype.kind == "f"


def tensor_type(shape: Sequence[int | None], dtype: Any) -> Any:
    """The tensor type of Apple's bindings."""
    kind = np.dtype(dtype)
    element = ir.IntegerType.get_unsigned(1) if kind == ml_dtypes.uint1 else kind.type  # TensorType lacks uint1
    return tensor_types.TensorType([-1 if size is None else size for size in shape], element)._to_mlir()


def write_constant(array: Array) -> Any:
    """Writes a constant at the current insertion point; returns its value in Apple's bindings."""
    bits = _SUB_BYTE.get(array.dtype)
    if bits is None:
        return dialect.constant(np.asarray(array, order="C"))
    # Apple's constructor expects one byte per element, but these have to be packed, lowest bits first.
    kind = tensor_type(array.shape, array.dtype)
    attribute = bindings.create_elements_attr(ir.Location.unknown(), kind, pack_bits(array, bits))
    return dialect.ConstantOp(value=attribute).result


_SUB_BYTE = {
    np.dtype(ml_dtypes.int4): 4,
    np.dtype(ml_dtypes.uint4): 4,
    np.dtype(ml_dtypes.uint2): 2,
    np.dtype(ml_dtypes.uint1): 1,
}


_SPELLED: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "i1": np.bool_,
    "si8": np.int8,
    "si16": np.int16,
    "si32": np.int32,
    "si4": ml_dtypes.int4,
    "ui1": ml_dtypes.uint1,
    "ui2": ml_dtypes.uint2,
    "ui4": ml_dtypes.uint4,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
}


def numpy_type(element: Any) -> np.dtype[Any]:
    """The NumPy type of an element type of Apple's bindings."""
    found: np.dtype[Any] = np.dtype(_SPELLED[str(element)])
    return found
