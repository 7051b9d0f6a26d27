"""Operations that make tensors from shapes, indices and numbers, and a few that scan a tensor."""

from __future__ import annotations

import math

import numpy as np

from edgekit_mlruntime.precision import HELD_TYPES
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


@kernel("fill", raw=True)
def fill(call: Call, shape: Ints, value: float = 0.0) -> Array:
    """A tensor of one value."""
    return np.full(shape, value, HELD_TYPES[call.output.dtype])


@kernel("fill_like", opset=16, raw=True)
def fill_like(call: Call, ref_tensor: Array, value: float = 0.0) -> Array:
    """A tensor of one value in the shape of another."""
    return np.full(ref_tensor.shape, value, HELD_TYPES[call.output.dtype])


@kernel("range_1d")
def range_1d(call: Call, end: float, start: float, step: float) -> Array:
    """``start``, ``start + step``, … up to but not including ``end``."""
    return np.arange(max(0, math.ceil((end - start) / step))) * step + start


@kernel("one_hot", raw=True)
def one_hot(
    call: Call, indices: Array, one_hot_vector_size: int, axis: int = -1, on_value: float = 1, off_value: float = 0
) -> Array:
    """Vectors along a new axis: ``on_value`` at the index, if the index is in range, and ``off_value`` elsewhere."""
    axis = axis + indices.ndim + 1 if axis < 0 else axis
    positions = np.arange(one_hot_vector_size).reshape(-1, *(1,) * (indices.ndim - axis))
    held = HELD_TYPES[call.output.dtype].type
    vectors: Array = np.where(np.expand_dims(indices, axis) == positions, held(on_value), held(off_value))
    return vectors


@kernel("shape", raw=True)
def shape(call: Call, x: Array) -> Array:
    """The shape as a vector."""
    return np.array(x.shape, np.int32)


@kernel("non_zero", raw=True)
def non_zero(call: Call, x: Array) -> Array:
    """Indices of the elements that are not zero, one per row."""
    return np.argwhere(x)


@kernel("band_part", raw=True)
def band_part(call: Call, x: Array, lower: int = -1, upper: int = -1) -> Array:
    """Keep ``lower`` diagonals below and ``upper`` above the main diagonal of each matrix (-1: all); the rest is 0."""
    rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
    kept = np.ones(x.shape[-2:], np.bool_)
    if lower >= 0:
        kept &= rows - columns <= lower
    if upper >= 0:
        kept &= columns - rows <= upper
    return np.where(kept, x, x.dtype.type(0))


@kernel("cumsum")
def cumsum(call: Call, x: Array, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Array:
    """Running sum along an axis, from the end if ``reverse``; with ``exclusive``, without the element itself."""
    source = np.flip(x, axis) if reverse else x
    total = np.cumsum(source, axis, dtype=x.dtype)
    if exclusive:
        inner = np.moveaxis(total, axis, 0)
        shifted = np.zeros_like(inner)
        shifted[1:] = inner[:-1]
        total = np.moveaxis(shifted, 0, axis)
    return np.flip(total, axis) if reverse else total
