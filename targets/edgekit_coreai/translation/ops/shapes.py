"""Operations that move elements without changing them."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, Ints, lowering
from edgekit_coreai.translation.tensors import Tensor


@lowering("identity")
def identity(b: Builder, call: Call, x: Any) -> Any:
    """Returns the input, a tensor or a list."""
    return x


@lowering("reshape")
def reshape(b: Builder, call: Call, x: Tensor, shape: Tensor) -> Tensor:
    """The same elements in another shape, where one size may be -1 (inferred), and 0 keeps that dimension's size."""
    return _reshaped(b, x, shape, 0)


@lowering("reshape", opset=17)
def reshape_aligned(b: Builder, call: Call, x: Tensor, shape: Tensor) -> Tensor:
    """From iOS 17 on, 0 keeps the size of that dimension counted from the right, and means 1 beyond the rank."""
    (count,) = shape.sizes
    return _reshaped(b, x, shape, x.rank - count)


def _reshaped(b: Builder, x: Tensor, shape: Tensor, offset: int) -> Tensor:
    if shape.array is None:
        return b.op("reshape", x, b.cast(shape, np.int32))
    sizes: list[int | Tensor] = []
    for place, size in enumerate(int(number) for number in shape.array.reshape(-1)):
        kept = place + offset
        sizes.append(size if size else b.size(x, kept) if kept >= 0 else 1)
    return b.reshape(x, sizes)


@lowering("reshape_like")
def reshape_like(
    b: Builder,
    call: Call,
    x: Tensor,
    ref_tensors: list[Tensor],
    begins: list[Tensor],
    ends: list[Tensor],
    end_masks: list[Tensor],
) -> Tensor:
    """The same elements in the shape that results from concatenating slices of other tensors' shapes."""
    sizes: list[int | Tensor] = []
    for reference, *limits in zip(ref_tensors, begins, ends, end_masks, strict=True):
        if any(limit.array is None for limit in limits):
            raise CannotTranslate("its limits are computed by the model")
        begin, end, is_open = (int(limit.array.reshape(-1)[0]) for limit in limits if limit.array is not None)
        sizes += b.all_sizes(reference)[begin : None if is_open else end]
    return b.reshape(x, sizes)


@lowering("flatten2d")
def flatten2d(b: Builder, call: Call, x: Tensor, axis: int = 1) -> Tensor:
    """Merge the dimensions before ``axis`` into the first of two dimensions, and the others into the second."""
    axis = axis + x.rank if axis < 0 else axis
    sizes = b.all_sizes(x)
    halves = [_count(b, sizes[:axis]), _count(b, sizes[axis:])]
    return b.reshape(x, halves)


def _count(b: Builder, sizes: list[int | Tensor]) -> int | Tensor:
    total: int | Tensor = 1
    for size in sizes:
        if isinstance(total, int) and isinstance(size, int):
            total *= size
        else:
            tensor, other = (size, total) if isinstance(size, Tensor) else (total, size)
            assert isinstance(tensor, Tensor)
            total = b.mul(tensor, other)
    return total


@lowering("expand_dims")
def expand_dims(b: Builder, call: Call, x: Tensor, axes: Ints) -> Tensor:
    """Insert dimensions of size 1, which have the positions ``axes`` in the result."""
    rank = x.rank + len(axes)
    return b.expand(x, sorted(axis % rank for axis in axes))


@lowering("squeeze")
def squeeze(b: Builder, call: Call, x: Tensor, axes: Ints | None = None) -> Tensor:
    """Remove all dimensions of size 1, or only those in ``axes``; dimensions in ``axes`` of another size stay."""
    if axes is None:
        declared = call.output.shape
        if not x.is_static and (declared is None or len(declared) != sum(size != 1 for size in x.shape)):
            raise CannotTranslate("which dimensions have size 1 is known only at run time")
        return b.squeeze(x, [axis for axis, size in enumerate(x.shape) if size == 1])
    wanted = {axis % x.rank for axis in axes}
    return b.squeeze(x, sorted(axis for axis in wanted if x.shape[axis] in (1, None)))


@lowering("transpose")
def transpose(b: Builder, call: Call, x: Tensor, perm: Ints) -> Tensor:
    """Dimension ``i`` of the result is dimension ``perm[i]`` of ``x``."""
    return b.transpose(x, perm)


@lowering("reverse")
def reverse(b: Builder, call: Call, x: Tensor, axes: Ints | None = None) -> Tensor:
    """Reverse the order along ``axes``, by default along all."""
    over = sorted(axis % x.rank for axis in (range(x.rank) if axes is None else axes))
    return b.op("reverse", x, np.array(over, np.int32)) if over else x


@lowering("reverse_sequence")
def reverse_sequence(
    b: Builder, call: Call, x: Tensor, lengths: Tensor, seq_axis: int = 0, batch_axis: int = 0
) -> Tensor:
    """Reverse, for each index ``i`` along ``batch_axis``, the first ``lengths[i]`` elements along ``seq_axis``."""
    seq_axis, batch_axis = seq_axis % x.rank, batch_axis % x.rank
    steps = b.positions(b.size(x, seq_axis))
    shape = [1] * x.rank
    shape[seq_axis] = -1
    places = b.reshape(steps, shape)
    shape = [1] * x.rank
    shape[batch_axis] = -1
    counts = b.reshape(b.cast(lengths, np.int32), shape)
    mirrored = b.sub(b.sub(counts, 1), places)
    picked = b.select(b.less(places, counts), mirrored, places)
    return b.along_axis(x, b.broadcast(picked, b.all_sizes(x)), seq_axis)


def _regrouped(b: Builder, x: Tensor, split: list[Any], order: list[int], joined: list[Any]) -> Tensor:
    return b.reshape(b.transpose(b.reshape(x, split), order), joined)


def _times(b: Builder, size: int | Tensor, factor: int) -> int | Tensor:
    return size * factor if isinstance(size, int) else b.mul(size, factor)


def _part(b: Builder, size: int | Tensor, divisor: int) -> int | Tensor:
    return size // divisor if isinstance(size, int) else b.div(size, divisor)


@lowering("depth_to_space")
def depth_to_space(b: Builder, call: Call, x: Tensor, block_size: int) -> Tensor:
    """Spread channels over blocks of space; the channel index is (row in block, column in block, channel)."""
    return _to_space(b, x, block_size, channels_last=True)


@lowering("pixel_shuffle")
def pixel_shuffle(b: Builder, call: Call, x: Tensor, upscale_factor: int) -> Tensor:
    """Spread channels over blocks of space; the channel index is (channel, row in block, column in block)."""
    return _to_space(b, x, upscale_factor, channels_last=False)


def _to_space(b: Builder, x: Tensor, side: int, *, channels_last: bool) -> Tensor:
    n, channels, height, width = b.all_sizes(x)
    left = _part(b, channels, side * side)
    split, order = (
        ([n, side, side, left, height, width], [0, 3, 4, 1, 5, 2])
        if channels_last
        else ([n, left, side, side, height, width], [0, 1, 4, 2, 5, 3])
    )
    return _regrouped(b, x, split, order, [n, left, _times(b, height, side), _times(b, width, side)])


@lowering("space_to_depth")
def space_to_depth(b: Builder, call: Call, x: Tensor, block_size: int) -> Tensor:
    """Gather blocks of space into channels; the inverse of ``depth_to_space``."""
    return _to_depth(b, x, block_size, [0, 3, 5, 1, 2, 4])


@lowering("pixel_unshuffle")
def pixel_unshuffle(b: Builder, call: Call, x: Tensor, downscale_factor: int) -> Tensor:
    """Gather blocks of space into channels; the inverse of ``pixel_shuffle``."""
    return _to_depth(b, x, downscale_factor, [0, 1, 3, 5, 2, 4])


def _to_depth(b: Builder, x: Tensor, side: int, order: list[int]) -> Tensor:
    n, channels, height, width = b.all_sizes(x)
    rows, columns = _part(b, height, side), _part(b, width, side)
    split = [n, channels, rows, side, columns, side]
    return _regrouped(b, x, split, order, [n, _times(b, channels, side * side), rows, columns])


@lowering("space_to_batch")
def space_to_batch(b: Builder, call: Call, x: Tensor, block_shape: Ints, paddings: Ints) -> Tensor:
    """Pad space with zeros and gather its blocks into the batch, indexed by (row in block, column in block, n)."""
    top, bottom, left, right = paddings
    down, across = block_shape
    x = b.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
    n, channels, height, width = b.all_sizes(x)
    rows, columns = _part(b, height, down), _part(b, width, across)
    split = [n, channels, rows, down, columns, across]
    return _regrouped(b, x, split, [3, 5, 0, 1, 2, 4], [_times(b, n, down * across), channels, rows, columns])


@lowering("batch_to_space")
def batch_to_space(b: Builder, call: Call, x: Tensor, block_shape: Ints, crops: Ints) -> Tensor:
    """Spread the batch over blocks of space and crop; the inverse of ``space_to_batch``."""
    top, bottom, left, right = crops
    down, across = block_shape
    n, channels, height, width = b.all_sizes(x)
    images = _part(b, n, down * across)
    split = [down, across, images, channels, height, width]
    joined = [images, channels, _times(b, height, down), _times(b, width, across)]
    made = _regrouped(b, x, split, [2, 3, 4, 0, 5, 1], joined)
    return cropped(b, made, (top, bottom), (left, right))


@lowering("crop")
def crop(b: Builder, call: Call, x: Tensor, crop_height: Ints, crop_width: Ints) -> Tensor:
    """Remove the given numbers of first and last rows and columns, the last two axes."""
    return cropped(b, x, (crop_height[0], crop_height[1]), (crop_width[0], crop_width[1]))


def cropped(b: Builder, x: Tensor, rows: tuple[int, int], columns: tuple[int, int]) -> Tensor:
    """Cut off the given numbers of first and last rows and columns, the last two axes."""
    for axis, (before, after) in ((-2, rows), (-1, columns)):
        if before or after:
            x = b.narrow(x, axis, before, -after if after else None)
    return x
