"""Operations that read and write at indices. Apple's operations read undefined values at indices out of range."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor


@lowering("gather")
def gather(
    b: Builder,
    call: Call,
    x: Tensor,
    indices: Tensor,
    axis: int = 0,
    batch_dims: int = 0,
    validate_indices: bool = False,
) -> Tensor:
    """``x[..., indices, ...]`` with ``indices`` at ``axis``; the first ``batch_dims`` dimensions are shared by both."""
    axis %= x.rank
    if not batch_dims:
        if indices.rank == 0 and indices.array is not None and x.shape[axis] is not None:
            place = int(indices.array) % (x.shape[axis] or 1)
            return b.squeeze(b.narrow(x, axis, place, place + 1), [axis])
        return b.gather(x, indices, axis)
    # Dimensions of x: batch, those between batch and axis, axis, the rest. Dimensions of indices: batch, then its own.
    moved = b.move(x, axis, batch_dims)
    own, between = indices.rank - batch_dims, axis - batch_dims
    found = _in_step(b, moved, b.expand(indices, [indices.rank]), batch_dims)
    order = [
        *range(batch_dims),
        *range(batch_dims + own, batch_dims + own + between),
        *range(batch_dims, batch_dims + own),
        *range(batch_dims + own + between, found.rank),
    ]
    return b.transpose(found, order)


def _in_step(b: Builder, x: Tensor, indices: Tensor, batch_dims: int) -> Tensor:
    """``gather_nd`` in which ``x`` and ``indices`` share the first dimensions: the batch index precedes each tuple."""
    sizes = b.all_sizes(indices)[:-1]
    parts = [_grid(b, sizes, axis) for axis in range(batch_dims)]
    return b.op("gather_nd", x, b.concat([*parts, b.cast(indices, np.int32)], indices.rank - 1))


def _grid(b: Builder, sizes: Sequence[int | Tensor], axis: int) -> Tensor:
    """The index along ``axis`` at every position of a tensor of shape ``sizes``: shape [*sizes, 1]."""
    shape = [1] * (len(sizes) + 1)
    shape[axis] = -1
    return b.broadcast(b.reshape(b.positions(sizes[axis]), shape), [*sizes, 1])


@lowering("gather_along_axis")
def gather_along_axis(
    b: Builder, call: Call, x: Tensor, indices: Tensor, axis: int = 0, validate_indices: bool = False
) -> Tensor:
    """``result[p] = x[p with indices[p] at axis]`` for every position ``p`` of ``indices``."""
    axis %= x.rank
    for other in range(x.rank):
        have, want = x.shape[other], indices.shape[other]
        if other != axis and have is not None and want is not None and want < have:
            x = b.narrow(x, other, 0, want)
    return b.along_axis(x, indices, axis)


@lowering("gather_nd")
def gather_nd(
    b: Builder, call: Call, x: Tensor, indices: Tensor, batch_dims: int = 0, validate_indices: bool = False
) -> Tensor:
    """``x[indices[p]]`` for every position ``p``: the last dimension of ``indices`` holds index tuples."""
    if batch_dims:
        return _in_step(b, x, indices, batch_dims)
    return b.op("gather_nd", x, b.cast(indices, np.int32))


_MODES = ("update", "add", "sub", "mul", "div", "max", "min")


def _require(mode: str) -> None:
    if mode not in _MODES:
        raise CannotTranslate(f"there is no mode {mode}")


@lowering("scatter")
def scatter(
    b: Builder,
    call: Call,
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: int = 0,
    mode: str = "add",
    validate_indices: bool = False,
) -> Tensor:
    """Write slices ``updates[..., i, ...]`` to ``data[..., indices[i], ...]``, both along ``axis``."""
    _require(mode)
    axis %= data.rank
    sizes = b.all_sizes(data)
    # Updates have the indices' dimensions at the axis: these are merged into one dimension.
    flat = b.reshape(indices, [-1])
    count = b.size(flat, 0)
    lined = b.reshape(updates, [*sizes[:axis], count, *sizes[axis + 1 :]])
    shape = [1] * data.rank
    shape[axis] = -1
    spread = b.broadcast(b.reshape(b.cast(flat, np.int32), shape), b.all_sizes(lined))
    return b.scatter(data, spread, b.cast(lined, data.dtype), axis, mode)


@lowering("scatter_along_axis")
def scatter_along_axis(
    b: Builder,
    call: Call,
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: int = 0,
    mode: str = "add",
    validate_indices: bool = False,
) -> Tensor:
    """Write ``updates[p]`` to ``data[p with indices[p] at axis]`` for every position ``p`` of ``indices``."""
    _require(mode)
    axis %= data.rank
    updates = b.cast(updates, data.dtype)
    if all(
        want == have for other, (want, have) in enumerate(zip(indices.shape, data.shape, strict=True)) if other != axis
    ):
        return b.scatter(data, indices, updates, axis, mode)
    # Apple's operation requires indices for whole slices: write to the part of the data that the indices cover, and
    # put that part back.
    if not (data.is_static and indices.is_static):
        raise CannotTranslate("indices for a part of a size that is open")
    stops = [
        have if other == axis else want
        for other, (want, have) in enumerate(zip(indices.sizes, data.sizes, strict=True))
    ]
    starts, ones = [0] * data.rank, [1] * data.rank
    part = b.scatter(b.slice(data, starts, stops, ones), indices, updates, axis, mode)
    numbers = [b.constant(np.array(item, np.int32)) for item in (starts, stops, ones)]
    return b.op("slice_update", data, *numbers, part)


@lowering("scatter_nd")
def scatter_nd(
    b: Builder,
    call: Call,
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    mode: str = "add",
    validate_indices: bool = False,
) -> Tensor:
    """Write ``updates[p]`` to ``data[indices[p]]``: the last dimension of ``indices`` holds index tuples."""
    _require(mode)
    depth = indices.shape[-1]
    assert depth is not None
    sizes = b.all_sizes(data)
    if not all(isinstance(size, int) for size in sizes[1:]):
        raise CannotTranslate("data whose inner sizes are open")
    known = [size for size in sizes if isinstance(size, int)]
    inner = known[len(known) - data.rank + depth :] if depth < data.rank else []
    width = math.prod(inner)
    # An index tuple becomes the number of a row in data reshaped to [rows, width].
    strides = [
        math.prod(known[len(known) - data.rank + place + 1 : len(known) - data.rank + depth]) for place in range(depth)
    ]
    index = b.cast(indices, np.int32)
    limits = b.vector(sizes[:depth])
    wrapped = b.select(b.less(index, 0), b.add(index, limits), index)
    rows = b.reduce("reduce_sum", b.mul(wrapped, b.constant(np.array(strides, np.int32))), [indices.rank - 1])
    rows = b.reshape(rows, [-1, 1])
    table = b.reshape(data, [-1, width])
    lines = b.reshape(b.cast(updates, data.dtype), [-1, width])
    made = b.scatter(table, b.broadcast(rows, b.all_sizes(lines)), lines, 0, mode)
    return b.reshape(made, sizes)
