"""Operations that take tensors apart."""

from __future__ import annotations

import itertools

import numpy as np

from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


def _index(
    begin: Ints,
    end: Ints,
    stride: Ints | None,
    begin_mask: Ints | None,
    end_mask: Ints | None,
    squeeze_mask: Ints | None,
) -> tuple[slice | int, ...]:
    """The slice as a NumPy index: masked ends are open, squeezed dimensions get a single index."""
    free = (0,) * len(begin)
    dimensions = zip(
        begin, end, stride or (1,) * len(begin), begin_mask or free, end_mask or free, squeeze_mask or free, strict=True
    )
    return tuple(
        (0 if open_begin else first)
        if squeezed
        else slice(None if open_begin else first, None if open_end else last, step)
        for first, last, step, open_begin, open_end, squeezed in dimensions
    )


@kernel("slice_by_index", raw=True)
def slice_by_index(
    call: Call,
    x: Array,
    begin: Ints,
    end: Ints,
    stride: Ints | None = None,
    begin_mask: Ints | None = None,
    end_mask: Ints | None = None,
    squeeze_mask: Ints | None = None,
) -> Array:
    """``x[begin:end:stride]`` in every dimension."""
    return np.asarray(x[_index(begin, end, stride, begin_mask, end_mask, squeeze_mask)])


@kernel("slice_update", opset=18, raw=True)
def slice_update(
    call: Call,
    x: Array,
    update: Array,
    begin: Ints,
    end: Ints,
    stride: Ints | None = None,
    begin_mask: Ints | None = None,
    end_mask: Ints | None = None,
    squeeze_mask: Ints | None = None,
) -> Array:
    """``x`` after ``x[begin:end:stride] = update``."""
    result = x.copy()
    result[_index(begin, end, stride, begin_mask, end_mask, squeeze_mask)] = update
    return result


@kernel("slice_by_size", raw=True)
def slice_by_size(call: Call, x: Array, begin: Ints, size: Ints) -> Array:
    """``size`` elements from ``begin`` on in every dimension; all remaining elements for a size of -1."""
    starts = [first + total if first < 0 else first for first, total in zip(begin, x.shape, strict=True)]
    if any(count > total - first for first, count, total in zip(starts, size, x.shape, strict=True)):
        raise ExecutionError("a slice reaches beyond the input", operation=call.name, expected=x.shape, found=size)
    return x[
        tuple(slice(first, None if count == -1 else first + count) for first, count in zip(starts, size, strict=True))
    ]


@kernel("split", raw=True)
def split(
    call: Call, x: Array, axis: int, num_splits: int | None = None, split_sizes: Ints | None = None
) -> tuple[Array, ...]:
    """Parts along an axis: of the given sizes, or ``num_splits`` parts of equal size."""
    if split_sizes is None:
        if num_splits is None:
            raise ExecutionError("split needs num_splits or split_sizes", operation=call.name)
        if x.shape[axis] % num_splits:
            raise ExecutionError(
                "the parts are not equal", operation=call.name, expected=f"{num_splits} parts", found=x.shape[axis]
            )
        split_sizes = (x.shape[axis] // num_splits,) * num_splits
    ends = list(itertools.accumulate(split_sizes))
    if ends[-1] != x.shape[axis]:
        raise ExecutionError(
            "split_sizes do not add up", operation=call.name, expected=x.shape[axis], found=split_sizes
        )
    before = (slice(None),) * (axis % x.ndim)
    return tuple(x[(*before, slice(end - size, end))] for size, end in zip(split_sizes, ends, strict=True))


@kernel("sliding_windows", raw=True)
def sliding_windows(call: Call, x: Array, axis: int, size: int, stride: int = 1) -> Array:
    """All windows of ``size`` elements along an axis, ``stride`` apart; the elements lie along a new axis after it."""
    axis %= x.ndim
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    return np.moveaxis(windows[(slice(None),) * axis + (slice(None, None, stride),)], -1, axis + 1)
