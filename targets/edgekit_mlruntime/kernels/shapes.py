"""Operations that change a tensor's shape or the order of its elements, but not the elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


@kernel("identity", raw=True)
def identity(call: Call, x: Any) -> Any:
    """Return the input, a tensor or a list."""
    return x


@kernel("reshape", raw=True)
def reshape(call: Call, x: Array, shape: Ints) -> Array:
    """The same elements in another shape, where one size may be -1 (inferred), and 0 keeps that dimension's size."""
    if 0 in shape and len(shape) != x.ndim:
        raise ExecutionError(
            "reshape with a 0 needs as many sizes as there are dimensions before iOS 17",
            operation=call.name,
            expected=f"{x.ndim} sizes",
            found=shape,
        )
    return _reshaped(call, x, [x.shape[axis] if size == 0 else size for axis, size in enumerate(shape)])


@kernel("reshape", opset=17, raw=True)
def reshape_aligned(call: Call, x: Array, shape: Ints) -> Array:
    """From iOS 17 on, 0 keeps the size of that dimension counted from the right, and means 1 beyond the rank."""
    offset = x.ndim - len(shape)
    kept = [x.shape[axis + offset] if axis + offset >= 0 else 1 for axis in range(len(shape))]
    return _reshaped(call, x, [kept[axis] if size == 0 else size for axis, size in enumerate(shape)])


def _reshaped(call: Call, x: Array, sizes: list[int]) -> Array:
    """The elements in the shape ``sizes``, or an ExecutionError if the number of elements does not match."""
    known, open_sizes = math.prod(size for size in sizes if size >= 0), sum(size < 0 for size in sizes)
    fits = known == x.size if open_sizes == 0 else open_sizes == 1 and known > 0 and x.size % known == 0
    if not fits:
        raise ExecutionError(
            "reshape to another number of elements",
            operation=call.name,
            expected=f"sizes of {x.size} elements",
            found=sizes,
        )
    return x.reshape(sizes)


@kernel("reshape_like", raw=True)
def reshape_like(
    call: Call, x: Array, ref_tensors: list[Array], begins: list[Array], ends: list[Array], end_masks: list[Array]
) -> Array:
    """The same elements in the shape that results from concatenating slices of other tensors' shapes."""
    shape: list[int] = []
    for reference, begin, end, open_end in zip(ref_tensors, begins, ends, end_masks, strict=True):
        shape += reference.shape[int(begin) : None if open_end else int(end)]
    return x.reshape(shape)


@kernel("flatten2d", raw=True)
def flatten2d(call: Call, x: Array, axis: int = 1) -> Array:
    """Merge the dimensions before ``axis`` into the first of two dimensions, and the others into the second."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@kernel("expand_dims", raw=True)
def expand_dims(call: Call, x: Array, axes: Ints) -> Array:
    """Insert dimensions of size 1, which have the positions ``axes`` in the result."""
    return np.expand_dims(x, axes)


@kernel("squeeze", raw=True)
def squeeze(call: Call, x: Array, axes: Ints | None = None) -> Array:
    """Remove all dimensions of size 1, or only those in ``axes``; dimensions in ``axes`` of another size stay."""
    candidates = range(x.ndim) if axes is None else {axis % x.ndim for axis in axes}
    return x.reshape([size for axis, size in enumerate(x.shape) if size != 1 or axis not in candidates])


@kernel("transpose", raw=True)
def transpose(call: Call, x: Array, perm: Ints) -> Array:
    """Dimension ``i`` of the result is dimension ``perm[i]`` of ``x``."""
    return np.transpose(x, perm)


@kernel("reverse", raw=True)
def reverse(call: Call, x: Array, axes: Ints | None = None) -> Array:
    """Reverse the order along ``axes``, by default along all."""
    return np.flip(x, axes)


@kernel("reverse_sequence", raw=True)
def reverse_sequence(call: Call, x: Array, lengths: Ints, seq_axis: int = 0, batch_axis: int = 0) -> Array:
    """Reverse, for each index ``i`` along ``batch_axis``, the first ``lengths[i]`` elements along ``seq_axis``."""
    result = x.copy()
    source = np.moveaxis(x, (batch_axis, seq_axis), (0, 1))
    target = np.moveaxis(result, (batch_axis, seq_axis), (0, 1))
    for index, length in enumerate(lengths):
        target[index, :length] = source[index, :length][::-1]
    return result


def _blocks(x: Array, rows: int, columns: int) -> Array:
    """Divide space into blocks: [n, channels, height / rows, rows, width / columns, columns]."""
    n, channels, height, width = x.shape
    return x.reshape(n, channels, height // rows, rows, width // columns, columns)


def _joined(blocks: Array) -> Array:
    """Merge blocks into space; the inverse of ``_blocks``."""
    n, channels, height, rows, width, columns = blocks.shape
    return blocks.reshape(n, channels, height * rows, width * columns)


@kernel("depth_to_space", raw=True)
def depth_to_space(call: Call, x: Array, block_size: int) -> Array:
    """Spread channels over blocks of space; the channel index is (row in block, column in block, channel)."""
    n, channels, height, width = x.shape
    split = x.reshape(n, block_size, block_size, channels // block_size**2, height, width)
    return _joined(split.transpose(0, 3, 4, 1, 5, 2))


@kernel("space_to_depth", raw=True)
def space_to_depth(call: Call, x: Array, block_size: int) -> Array:
    """Gather blocks of space into channels; the inverse of ``depth_to_space``."""
    blocks = _blocks(x, block_size, block_size).transpose(0, 3, 5, 1, 2, 4)
    return blocks.reshape(x.shape[0], x.shape[1] * block_size**2, *blocks.shape[-2:])


@kernel("pixel_shuffle", raw=True)
def pixel_shuffle(call: Call, x: Array, upscale_factor: int) -> Array:
    """Spread channels over blocks of space; the channel index is (channel, row in block, column in block)."""
    n, channels, height, width = x.shape
    split = x.reshape(n, channels // upscale_factor**2, upscale_factor, upscale_factor, height, width)
    return _joined(split.transpose(0, 1, 4, 2, 5, 3))


@kernel("pixel_unshuffle", raw=True)
def pixel_unshuffle(call: Call, x: Array, downscale_factor: int) -> Array:
    """Gather blocks of space into channels; the inverse of ``pixel_shuffle``."""
    blocks = _blocks(x, downscale_factor, downscale_factor).transpose(0, 1, 3, 5, 2, 4)
    return blocks.reshape(x.shape[0], x.shape[1] * downscale_factor**2, *blocks.shape[-2:])


@kernel("space_to_batch", raw=True)
def space_to_batch(call: Call, x: Array, block_shape: Ints, paddings: Ints) -> Array:
    """Pad space with zeros and gather its blocks into the batch, indexed by (row in block, column in block, n)."""
    top, bottom, left, right = paddings
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    blocks = _blocks(padded, *block_shape).transpose(3, 5, 0, 1, 2, 4)
    return blocks.reshape(math.prod(blocks.shape[:3]), *blocks.shape[-3:])


@kernel("batch_to_space", raw=True)
def batch_to_space(call: Call, x: Array, block_shape: Ints, crops: Ints) -> Array:
    """Spread the batch over blocks of space and crop; the inverse of ``space_to_batch``."""
    top, bottom, left, right = crops
    rows, columns = block_shape
    split = x.reshape(rows, columns, x.shape[0] // (rows * columns), *x.shape[1:])
    spread = _joined(split.transpose(2, 3, 4, 0, 5, 1))
    return spread[:, :, top : spread.shape[2] - bottom, left : spread.shape[3] - right]
