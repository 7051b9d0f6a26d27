"""Scales and zero points, and the arithmetic of QuantizeLinear and DequantizeLinear.

The formulas are those of the ONNX operator specification:
``q = saturate(round_half_even(x / scale) + zero_point)`` and ``x = (q - zero_point) * scale``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import EllipsisType

import numpy as np

TINY = np.finfo(np.float32).tiny
"""Scales up to this value are replaced by 1, as for an empty range: they are not normal float32 numbers."""
PART = 2**22
"""About how many numbers of a large array are processed at a time."""


@dataclass(frozen=True)
class IntegerType:
    """An integer type that quantized values are stored in."""

    name: str
    low: int
    high: int

    @property
    def signed(self) -> bool:
        """Whether the type has negative numbers."""
        return self.low < 0


TYPES = {
    t.name: t
    for t in (
        IntegerType("int8", -128, 127),
        IntegerType("uint8", 0, 255),
        IntegerType("int4", -8, 7),
        IntegerType("uint4", 0, 15),
        IntegerType("int16", -32768, 32767),
        IntegerType("uint16", 0, 65535),
    )
}


def row_ranges(array: np.ndarray, multiple: int = 1) -> Iterator[slice | EllipsisType]:
    """The row ranges of parts of about :data:`PART` numbers each, into which an array is cut along its first axis.

    Large weights are in a memory-mapped file; intermediate arrays must not take several times their memory.

    Args:
        array: The array; one of at most :data:`PART` numbers is one part.
        multiple: Parts begin at multiples of this number of rows.
    """
    if array.size <= PART:
        yield ...
        return
    rows = max(1, PART * len(array) // array.size)
    rows = -(-rows // multiple) * multiple
    for start in range(0, len(array), rows):
        yield slice(start, start + rows)


def sum_of_squares(array: np.ndarray) -> float:
    """The sum of the squares of all numbers, in double precision, without a copy of the array in double precision."""
    flats = (array[rows].ravel() for rows in row_ranges(array))
    return float(sum(np.einsum("i,i->", flat, flat, dtype=np.float64) for flat in flats))


@dataclass(frozen=True)
class QParams:
    """How one tensor is quantized."""

    scale: np.ndarray
    """float32: a scalar, one entry per channel, or one per block (in the tensor's shape with the axis shortened)."""
    zero_point: np.ndarray
    """Integers, of the scale's shape."""
    dtype: IntegerType
    axis: int | None = None
    """The axis that channels run along; None for one scale per tensor."""
    block: int = 0
    """How many neighbors along ``axis`` share a scale; 0 if quantization is not block-wise."""

    def spread(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Scale and zero point, broadcastable to a tensor of ``shape``."""
        if self.axis is None:
            return self.scale, self.zero_point
        if self.block:
            within = (slice(None),) * (self.axis % len(shape)) + (slice(shape[self.axis]),)
            scale = np.repeat(self.scale, self.block, self.axis)[within]
            if not self.zero_point.any():
                return scale, _zero(0)
            return scale, np.repeat(self.zero_point, self.block, self.axis)[within]
        wide = [1] * len(shape)
        wide[self.axis] = -1
        return self.scale.reshape(wide), self.zero_point.reshape(wide)

    def quantize(self, array: np.ndarray) -> np.ndarray:
        """The integers of ``array``, in NumPy's type of the same name (4-bit ones in 8 bits)."""
        stored = np.int8 if self.dtype.name == "int4" else np.uint8 if self.dtype.name == "uint4" else self.dtype.name
        integers = np.empty(array.shape, stored)
        for place, part, params in self.parts(array):
            scale, zero = params.spread(part.shape)
            steps = np.asarray(np.asarray(part, np.float32) / scale)
            np.rint(steps, out=steps)
            steps += zero.astype(np.float32)
            integers[place] = np.clip(steps, self.dtype.low, self.dtype.high, out=steps)
        return integers

    def dequantize(self, integers: np.ndarray) -> np.ndarray:
        """The float32 numbers that ``integers`` represent."""
        scale, zero = self.spread(integers.shape)
        numbers = np.asarray(integers.astype(np.float32) - zero.astype(np.float32))  # exact, as types have <= 16 bits
        numbers *= scale
        return numbers

    def parts(self, array: np.ndarray) -> Iterator[tuple[slice | EllipsisType, np.ndarray, QParams]]:
        """A large array in parts: the rows of each part, the part, and the parameters that quantize it."""
        for rows in row_ranges(array, max(1, self.block) if self.axis == 0 else 1):
            yield rows, array[rows], self._of_rows(rows)

    def _of_rows(self, rows: slice | EllipsisType) -> QParams:
        if isinstance(rows, EllipsisType) or (self.axis != 0 and not self.block):
            return self
        if self.block and self.axis == 0:
            rows = slice(rows.start // self.block, rows.stop // self.block)
        return replace(self, scale=self.scale[rows], zero_point=self.zero_point[rows])

    def squared_error(self, array: np.ndarray) -> float:
        """The sum of the squared errors of a round trip."""
        return sum(sum_of_squares(params.rounded(part) - part) for _, part, params in self.parts(array))

    def rounded(self, array: np.ndarray) -> np.ndarray:
        """``array`` after a round trip, float32."""
        return self.dequantize(self.quantize(array))


def asymmetric(low: float, high: float, dtype: IntegerType) -> QParams:
    """Parameters that spread the type over ``[low, high]``, widened to include 0, which is represented exactly.

    Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference
    (CVPR 2018), equations 12 and 13.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32((high - low) / (dtype.high - dtype.low))
    if not scale > TINY:
        return QParams(np.float32(1.0) + np.zeros((), np.float32), _zero(0), dtype)
    zero = int(np.clip(np.rint(dtype.low - low / scale), dtype.low, dtype.high))
    return QParams(np.asarray(scale, np.float32), _zero(zero), dtype)


def symmetric(low: float, high: float, dtype: IntegerType) -> QParams:
    """Symmetric parameters: the zero point is the type's middle, and both ends of ``[low, high]`` fit."""
    middle = 0 if dtype.signed else (dtype.high + 1) // 2
    scale = np.float32(max(abs(low), abs(high)) / (dtype.high - middle))
    if not scale > TINY:
        scale = np.float32(1.0)
    return QParams(np.asarray(scale, np.float32), _zero(middle), dtype)


def _zero(value: int) -> np.ndarray:
    return np.asarray(value, np.int32)
