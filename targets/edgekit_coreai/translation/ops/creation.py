"""Operations that create tensors from numbers, shapes and indices, and running sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor, element_type

_SPLAT = 4096
"""Number of elements up to which a tensor of one value is stored; a larger one is created by broadcasting."""


def _numpy(call: Call) -> np.dtype[Any]:
    target = element_type(call.output.dtype)
    if target is None:
        raise CannotTranslate(f"values of type {call.output.dtype.name.lower()} cannot be computed with")
    return target


@lowering("fill")
def fill(b: Builder, call: Call, shape: Tensor, value: float = 0.0) -> Tensor:
    """A tensor of one value."""
    number = b.constant(np.asarray(value).astype(_numpy(call)))
    if shape.array is None:
        if call.output.shape is None:
            raise CannotTranslate("its result has no known rank")
        return b.op("broadcast_to", number, b.cast(shape, np.uint32))
    sizes = [int(size) for size in shape.array.reshape(-1)]
    if np.prod(sizes) <= _SPLAT:
        return b.constant(np.full(sizes, number.array))
    return b.broadcast(number, sizes)


@lowering("fill_like", opset=16)
def fill_like(b: Builder, call: Call, ref_tensor: Tensor, value: float = 0.0) -> Tensor:
    """A tensor of one value in the shape of another."""
    return b.broadcast(b.constant(np.asarray(value).astype(_numpy(call))), b.all_sizes(ref_tensor))


@lowering("range_1d")
def range_1d(b: Builder, call: Call, end: Tensor, start: Tensor, step: Tensor) -> Tensor:
    """``start``, ``start + step``, … up to but not including ``end``."""
    limits = [b.cast(b.reshape(item, []), _numpy(call)) for item in (start, end, step)]
    arrays = [item.array for item in limits if item.array is not None]
    if len(arrays) == 3:
        first, last, stride = arrays
        count = max(0, int(np.ceil((last.astype(np.float64) - first) / stride)))
        return b.constant((np.arange(count) * stride + first).astype(_numpy(call)))
    return b.op("range_", *limits)


@lowering("one_hot")
def one_hot(
    b: Builder,
    call: Call,
    indices: Tensor,
    one_hot_vector_size: Tensor,
    axis: int = -1,
    on_value: float = 1,
    off_value: float = 0,
) -> Tensor:
    """Vectors along a new axis: ``on_value`` at the index, if the index is in range, and ``off_value`` elsewhere."""
    axis = axis + indices.rank + 1 if axis < 0 else axis
    size = one_hot_vector_size
    count = b.reshape(size, []) if size.array is None else int(size.array.reshape(-1)[0])
    places = b.reshape(b.positions(count), [-1, *(1,) * (indices.rank - axis)])
    hit = b.equal(b.cast(b.expand(indices, [axis]), np.int32), places)
    on, off = (b.constant(np.asarray(number).astype(_numpy(call))) for number in (on_value, off_value))
    return b.select(hit, on, off)


@lowering("shape")
def shape(b: Builder, call: Call, x: Tensor) -> Tensor:
    """The shape as a vector."""
    return b.shape_of(x)


@lowering("non_zero")
def non_zero(b: Builder, call: Call, x: Tensor) -> Tensor:
    """Indices of the elements that are not zero, one per row."""
    return b.op("non_zero", x)


@lowering("cumsum")
def cumsum(b: Builder, call: Call, x: Tensor, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sum along an axis, from the end if ``reverse``; with ``exclusive``, without the element itself."""
    axis %= x.rank
    total = b.scan_sum(b.wide(x), axis, reverse=reverse)
    if not exclusive:
        return total
    widths = [(0, 0)] * x.rank
    widths[axis] = (0, 1) if reverse else (1, 0)
    padded = b.pad(total, widths)
    return b.narrow(padded, axis, 1, None) if reverse else b.narrow(padded, axis, 0, -1)
