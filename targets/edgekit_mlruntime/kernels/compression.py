"""Decompression of constants: the ``constexpr_`` operations."""

from __future__ import annotations

import math

import numpy as np

from edgekit_mlruntime.kernels.quantization import along_axis
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel
from edgekit_mlruntime.weights import unpack_bits


@kernel("constexpr_affine_dequantize", opset=16)
def constexpr_affine_dequantize(call: Call, quantized_data: Array, zero_point: Array, scale: Array, axis: int) -> Array:
    """``scale * (quantized_data - zero_point)``; ``scale`` and ``zero_point`` are scalars or vectors along ``axis``."""
    levels = quantized_data.astype(np.float32)
    levels -= along_axis(zero_point, axis, levels.ndim)
    levels *= along_axis(scale, axis, levels.ndim)
    return levels


@kernel("constexpr_cast", opset=16)
def constexpr_cast(call: Call, source_val: Array, output_dtype: str) -> Array:
    """Convert float16 to float32; float16 is held as float32, so the values stay as they are."""
    return source_val


@kernel("constexpr_lut_to_dense", opset=16, raw=True)
def constexpr_lut_to_dense_packed(call: Call, indices: Array, lut: Array, shape: Ints) -> Array:
    """Replace each index by its entry in ``lut``; indices are packed, lowest bit first, in log2(len(lut)) bits each."""
    bits = lut.size.bit_length() - 1
    count = math.prod(shape)
    keys = indices.reshape(-1)[:count] if bits == 8 else unpack_bits(indices, bits, count, signed=False)
    return lut.reshape(-1)[keys].reshape(shape)


@kernel("constexpr_sparse_to_dense", opset=16, raw=True)
def constexpr_sparse_to_dense_packed(call: Call, nonzero_data: Array, mask: Array, shape: Ints) -> Array:
    """Spread values over the elements whose bit is set in ``mask`` (packed, lowest bit first); zero elsewhere."""
    bits = np.unpackbits(mask.reshape(-1), count=math.prod(shape), bitorder="little")
    return _spread(nonzero_data, bits.reshape(shape))


@kernel("constexpr_sparse_to_dense", opset=18, raw=True)
def constexpr_sparse_to_dense(call: Call, nonzero_data: Array, mask: Array) -> Array:
    """Spread values over the elements where ``mask`` is 1; zero elsewhere."""
    return _spread(nonzero_data, mask)


@kernel("constexpr_lut_to_dense", opset=18, raw=True)
def constexpr_lut_to_dense(call: Call, indices: Array, lut: Array, vector_axis: int | None = None) -> Array:
    """Replace each index by its entry in a look-up table.

    Args:
        call: The operation.
        indices: Unsigned integers [*D].
        lut: [*G, entries, vector size]: one table per block; dimension i of ``indices`` is divided into G[i] blocks.
        vector_axis: Dimension along which the elements of an entry lie; optional if entries have one element.

    Returns:
        [*D], with the size of dimension ``vector_axis`` multiplied by the vector size.
    """
    return _look_up(indices, lut, vector_axis)


@kernel("constexpr_lut_to_sparse", opset=18, raw=True)
def constexpr_lut_to_sparse(
    call: Call, indices_mask: Array, indices_nonzero_data: Array, lut: Array, vector_axis: int | None = None
) -> tuple[Array, Array]:
    """``constexpr_lut_to_dense``, only for the elements where ``indices_mask`` is 1.

    Returns:
        The mask of the result, uint8, and the result's elements under it, in row-major order.
    """
    values = _look_up(_spread(indices_nonzero_data, indices_mask), lut, vector_axis)
    mask = indices_mask
    if values.shape != mask.shape:
        assert vector_axis is not None
        mask = mask.repeat(lut.shape[-1], axis=vector_axis)
    return mask, values[mask != 0]


@kernel("constexpr_blockwise_shift_scale", opset=18)
def constexpr_blockwise_shift_scale(call: Call, data: Array, scale: Array, offset: Array | None = None) -> Array:
    """``scale * (data - offset)``, where each element of ``scale`` and ``offset`` applies to one block of ``data``.

    ``scale`` and ``offset`` have the rank of ``data``; a block has the shape ``data.shape / scale.shape``.
    """
    return _shift_scale(data, scale, offset)


@kernel("constexpr_sparse_blockwise_shift_scale", opset=18)
def constexpr_sparse_blockwise_shift_scale(
    call: Call, data_mask: Array, nonzero_data: Array, scale: Array, offset: Array | None = None
) -> tuple[Array, Array]:
    """``constexpr_blockwise_shift_scale``, only for the elements where ``data_mask`` is 1.

    Returns:
        The mask, and the result's elements under it, in row-major order.
    """
    values = _shift_scale(_spread(nonzero_data, data_mask), scale, offset)
    return data_mask, values[data_mask != 0]


def _spread(values: Array, mask: Array) -> Array:
    """An array of the mask's shape with ``values``, in row-major order, where the mask is not 0, and 0 elsewhere."""
    dense = np.zeros(mask.shape, values.dtype)
    dense[mask != 0] = values
    return dense


def _look_up(indices: Array, lut: Array, vector_axis: int | None) -> Array:
    """Replace each index by the entry of its block's table."""
    groups, (entries, vector) = lut.shape[:-2], lut.shape[-2:]
    if math.prod(groups) == 1:
        values = lut.reshape(entries, vector)[indices]
    else:
        blocks = np.ix_(*(np.arange(size) * count // size for size, count in zip(indices.shape, groups, strict=True)))
        values = lut[(*blocks, indices)]
    if vector == 1:
        return values[..., 0]
    if vector_axis is None:
        raise ValueError(f"look-up table with entries of {vector} elements, but no vector_axis")
    axis = vector_axis % indices.ndim
    shape = [size * (vector if index == axis else 1) for index, size in enumerate(indices.shape)]
    return np.moveaxis(values, -1, axis + 1).reshape(shape)


def _shift_scale(data: Array, scale: Array, offset: Array | None) -> Array:
    """``scale * (data - offset)``, each element of ``scale`` and ``offset`` for one block of ``data``."""
    # Each dimension is split in two: blocks, and elements within a block.
    split = [part for size, count in zip(data.shape, scale.shape, strict=True) for part in (count, size // count)]
    once = [part for count in scale.shape for part in (count, 1)]
    values = data.astype(np.float32).reshape(split)
    if offset is not None:
        values -= offset.astype(np.float32).reshape(once)
    values *= scale.reshape(once)
    return values.reshape(data.shape)
