"""Slicing, splitting, joining and selecting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import FIX_SIZES, HIGHEST_RANK, INT32_RANGE, Unsupported, Value, computed, constant
from edgekit_mil.support.high_ranks import along_axis, around, of_shape
from edgekit_mil.support.movement import empty, normalized_axis
from edgekit_mil.support.runtime_shapes import is_number, note_limit, positions_of, size_of


@lowering("Slice", versions=[1])
def slice_by_attributes(
    ctx: Context, x: Value, *, starts: list[int], ends: list[int], axes: list[int] | None = None
) -> Var | Value:
    """Slices by ranges from attributes."""
    return sliced(x, starts, ends, axes, None)


@lowering("Slice", versions=[10, 11, 13], note="starts and ends constant, or of steps 1; axes and steps constant")
def slice_by_inputs(
    ctx: Context, x: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Var | Value:
    """Slices by ranges from inputs."""
    along = axes.ints("axes") if axes is not None else None
    strides = steps.ints("steps") if steps is not None else None
    if starts.is_constant and ends.is_constant:
        return sliced(x, starts.ints("starts"), ends.ints("ends"), along, strides)
    if strides is not None and set(strides) != {1}:
        raise Unsupported("starts or ends computed at run time need steps of 1")
    return sliced_at_run_time(x, starts, ends, along)


def sliced(
    x: Value, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None, steps: Sequence[int] | None
) -> Var | Value:
    """``x[start:end:step]`` along axes; bounds beyond the tensor are clamped, so any int64 may be given."""
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    along = [normalized_axis(axis, x.rank) for axis in axes]
    ranges = dict(zip(along, zip(starts, ends, steps, strict=True), strict=True))
    if x.rank > HIGHEST_RANK:
        left = {axis: len(taken_of(x.static_sizes([axis])[0], *bounds)) for axis, bounds in ranges.items()}
        if 0 in left.values():
            return empty(x.dtype, [left.get(axis, size) for axis, size in enumerate(x.static_sizes(range(x.rank)))])
        for axis, bounds in ranges.items():
            x = sliced_axis(x, axis, *bounds)
        return x
    shape = list(x.shape)
    begin, end, stride = [0] * x.rank, [0] * x.rank, [1] * x.rank
    whole = [True] * x.rank
    open_end = [True] * x.rank
    backwards = []
    for axis, (first, last, step) in ranges.items():
        size = shape[axis]
        if not isinstance(size, int | np.integer):
            if step > 0 and (first < 0) == (last < 0) and first >= last:
                shape[axis] = 0
                continue
            if step < 0:
                x, first, last, step = reversed_range(x, axis, first, last, step)
            begin[axis], end[axis], stride[axis] = dynamic_range(first, last, step)
            whole[axis], open_end[axis] = first == 0, last >= INT32_RANGE[1]
            continue
        taken = taken_of(int(size), first, last, step)
        shape[axis] = len(taken)
        if not taken or len(taken) == size == 1:
            continue
        if step < 0:
            backwards.append(axis)
            taken = range(size - 1 - taken[0], size - taken[-1], -step)
        begin[axis], end[axis], stride[axis] = taken[0], taken[-1] + 1, taken.step
        whole[axis], open_end[axis] = begin[axis] == 0, end[axis] == size
    if 0 in shape:
        if not all(map(is_number, shape)):
            raise Unsupported("takes no elements of a tensor with open sizes", FIX_SIZES)
        return empty(x.dtype, shape)
    var = mb.reverse(x=x.var, axes=sorted(backwards)) if backwards else x.var
    if all(whole) and all(open_end) and set(stride) <= {1}:
        return mb.identity(x=var)
    result = mb.slice_by_index(x=var, begin=begin, end=end, stride=stride, begin_mask=whole, end_mask=open_end)
    for axis in ranges:
        note_limit(result.shape[axis], x.shape[axis])
        if 0 <= begin[axis] <= end[axis]:
            note_limit(result.shape[axis], len(range(begin[axis], end[axis], stride[axis])))
    return result


def taken_of(size: int, first: int, last: int, step: int) -> range:
    """The indices that a slice takes, which may differ from Python's if the step is negative.

    As in ONNX Runtime and ONNX's shape inference, such a slice begins at the first element at least, and the greatest
    integer as its end means no end, as exporters write it.
    """
    end = None if step < 0 and last in (np.iinfo(np.int32).max, np.iinfo(np.int64).max) else last
    return range(*slice(max(first, -size) if step < 0 else first, end, step).indices(size))


def sliced_axis(x: Value, axis: int, first: int, last: int, step: int) -> Value:
    """Takes a range of one axis, with the axes before and after it merged."""
    shape = list(x.shape)
    shape[axis] = len(taken_of(x.static_sizes([axis])[0], first, last, step))
    result = sliced(around(x, axis), [first], [last], [1], [step])
    return of_shape(result if isinstance(result, Value) else computed(result, x.dtype), shape, x)


def reversed_range(x: Value, axis: int, first: int, last: int, step: int) -> tuple[Value, int, int, int]:
    """Replaces a negative step along an open dimension by a reversed tensor and a range with a positive step.

    The elements in the range are taken forwards, with bounds that count from the same end as before, and reversed: the
    new range then starts at its first element, however long the dimension is.
    """
    low, high = INT32_RANGE
    begin = 0 if last <= low else last + 1
    if last == -1:  # the end of the dimension: a negative step reaches nothing before it
        begin = high
    end = high if first == -1 or first >= high else first + 1
    forwards = sliced_at_run_time(x, constant(np.array([begin])), constant(np.array([end])), [axis])
    return computed(mb.reverse(x=forwards, axes=[axis]), x.dtype), 0, high, -step


def dynamic_range(first: int, last: int, step: int) -> tuple[int, int, int]:
    """Bounds along a dynamic dimension, which the program clamps at run time."""
    low, high = INT32_RANGE
    return max(first, low), min(last, high), step


def sliced_at_run_time(x: Value, starts: Value, ends: Value, axes: Sequence[int] | None) -> Var:
    """A slice with steps of 1 whose bounds the program computes, clamped as ONNX specifies."""
    axes = list(range(starts.static_shape[0])) if axes is None else [normalized_axis(axis, x.rank) for axis in axes]
    begin: list[Any] = [np.zeros(1, np.int32)] * x.rank
    end: list[Any] = [np.ones(1, np.int32)] * x.rank  # the masks ignore them for other axes
    var = x.var
    for place, axis in enumerate(axes):
        size = size_of(var, axis)
        begin[axis] = clamped_bound(starts, place, size)
        end[axis] = clamped_bound(ends, place, size)
    sliced = mb.slice_by_index(
        x=var,
        begin=mb.concat(values=begin, axis=0),
        end=mb.concat(values=end, axis=0),
        begin_mask=[axis not in axes for axis in range(x.rank)],
        end_mask=[axis not in axes for axis in range(x.rank)],
    )
    for axis in axes:
        note_limit(sliced.shape[axis], var.shape[axis])
    return sliced


def clamped_bound(bounds: Value, place: int, size: Any) -> Any:
    """One bound as a vector of one element, counted from the front and within the dimension.

    Args:
        bounds: All bounds.
        place: Index of the bound.
        size: The dimension's size: a number, or a vector of one element that the program computes.
    """
    if bounds.constant is not None and is_number(size):
        start = int(bounds.constant[place])
        return np.array([min(max(start + size if start < 0 else start, 0), size)], np.int32)
    if bounds.constant is not None:
        low, high = INT32_RANGE
        one: Any = np.array([min(max(int(bounds.constant[place]), low), high)], np.int32)
        if one[0] >= 0:
            return mb.minimum(x=size, y=one)
    else:
        one = bounds.var if bounds.shape == (1,) else mb.slice_by_index(x=bounds.var, begin=[place], end=[place + 1])
    from_front = mb.select(cond=mb.less(x=one, y=0), a=mb.add(x=one, y=size), b=one)
    return mb.minimum(x=mb.maximum(x=from_front, y=0), y=size)


@lowering("Concat", versions=[4, 11, 13])
def concat(ctx: Context, *xs: Value, axis: int) -> Value:
    """Joins tensors along an axis; those without elements are left out."""
    full = [x for x in xs if not (x.is_static and 0 in x.static_shape)]
    if not full:
        shape = list(xs[0].static_shape)
        shape[axis] = sum(x.static_shape[axis] for x in xs)
        return empty(xs[0].dtype, shape)
    return joined(full, axis)


def joined(xs: Sequence[Value], axis: int) -> Value:
    """Joins tensors along an axis."""
    axis = normalized_axis(axis, xs[0].rank)
    if xs[0].rank > HIGHEST_RANK:
        shape = list(xs[0].shape)
        shape[axis] = sum(x.static_sizes([axis])[0] for x in xs)
        blocks = [around(x, axis) for x in xs]
        return of_shape(computed(mb.concat(values=[block.var for block in blocks], axis=1), xs[0].dtype), shape, *xs)
    if len(xs) == 1:
        return computed(mb.identity(x=xs[0].var), xs[0].dtype)
    together = mb.concat(values=[x.var for x in xs], axis=axis)
    note_limit(together.shape[axis], sum(x.shape[axis] for x in xs))
    return computed(together, xs[0].dtype)


@lowering("Split", versions=[2, 11])
def split_by_attribute(ctx: Context, x: Value, *, axis: int = 0, split: list[int] | None = None) -> list[Value]:
    """Splits into sizes from an attribute, or into equal parts."""
    axis = normalized_axis(axis, x.rank)
    return parts(x, axis, split or equal_sizes(x.static_sizes([axis])[0], len(ctx.output_used)), ctx.output_used)


@lowering("Split", versions=[13, 18], note="sizes constant")
def split_by_input(
    ctx: Context, x: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> list[Value]:
    """Splits into sizes from an input, or into equal parts of which the last may be smaller."""
    axis = normalized_axis(axis, x.rank)
    if split is not None:
        return parts(x, axis, split.ints("the sizes"), ctx.output_used)
    sizes = equal_sizes(x.static_sizes([axis])[0], num_outputs or len(ctx.output_used))
    return parts(x, axis, sizes, ctx.output_used)


def equal_sizes(size: int, count: int) -> list[int]:
    """Divides a size into equal parts; the last one is smaller if it does not divide evenly."""
    part = -(-size // count)
    return [max(0, min(part, size - part * place)) for place in range(count)]


def parts(x: Value, axis: int, sizes: Sequence[int], used: Sequence[bool] | None = None) -> list[Value]:
    """Parts of these sizes along an axis.

    Args:
        x: The tensor.
        axis: Counted from the front.
        sizes: Sizes of the parts; a size may be 0.
        used: Which parts anything reads; None for all. A part of size 0 that nothing reads may have open sizes.
    """
    if x.rank > HIGHEST_RANK:
        return along_axis(x, axis, lambda x, axis: parts(x, axis, sizes, used))
    shape = list(x.shape)
    with_elements = [size for size in sizes if size]
    if len(with_elements) > 1:
        pieces = iter(mb.split(x=x.var, split_sizes=with_elements, axis=axis))
    else:
        pieces = iter([mb.identity(x=x.var)])
    results = []
    for place, size in enumerate(sizes):
        shape[axis] = size
        if size:
            results.append(computed(next(pieces), x.dtype))
        else:
            is_read = used is None or used[place]
            results.append(empty(x.dtype, shape if is_read else [0] * x.rank))
    return results


@lowering("Compress", versions=[9, 11, 28])
def compress(ctx: Context, x: Value, condition: Value, *, axis: int | None = None) -> Var | Value:
    """Selects elements by a condition: slices along an axis, or from all elements in a row.

    What a condition has beyond the size that it selects from is ignored, as by ONNX Runtime.
    """
    flat = axis is None
    var = mb.reshape(x=x.var, shape=[-1]) if flat else x.var
    along = 0 if axis is None else normalized_axis(axis, x.rank)
    size = var.shape[along]
    if is_number(size) and is_number(condition.shape[0]) and condition.shape[0] > size:
        condition = (
            constant(condition.constant[:size], condition.dtype)
            if condition.constant is not None
            else computed(mb.slice_by_size(x=condition.var, begin=[0], size=[int(size)]), condition.dtype)
        )
    if condition.constant is None:
        places = mb.squeeze(x=positions_of(mb.cast(x=condition.var, dtype="int32")), axes=[1])
    else:
        chosen = np.flatnonzero(condition.constant).astype(np.int32)
        if not chosen.size:
            shape = [0] if flat else [0 if dim == along else size for dim, size in enumerate(x.static_shape)]
            return empty(x.dtype, shape)
        places = mb.const(val=chosen)
    if x.dtype is ir.DataType.BOOL:
        gathered = mb.gather(x=mb.cast(x=var, dtype="int32"), indices=places, axis=along)
        return mb.cast(x=gathered, dtype="bool")
    return mb.gather(x=var, indices=places, axis=along)
