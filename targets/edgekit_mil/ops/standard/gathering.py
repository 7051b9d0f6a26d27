"""Reading and writing at indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, ct, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import FIX_SIZES, HIGHEST_RANK, Infeasible, Unsupported, Value, computed, constant
from edgekit_mil.support import runtime_shapes
from edgekit_mil.support.high_ranks import around, of_shape
from edgekit_mil.support.integer_arithmetic import wrapped
from edgekit_mil.support.linear_quantization import EIGHT_BITS
from edgekit_mil.support.movement import empty, nonnegative, normalized_axis, through_int32

MODES = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@lowering("Gather", versions=[1, 11, 13])
def gather(ctx: Context, x: Value, indices: Value, *, axis: int = 0) -> Var | Value:
    """Slices of an axis at indices; one constant index is a slice."""
    axis = normalized_axis(axis, x.rank)
    if indices.is_static and 0 in indices.static_shape:
        return empty(x.dtype, (*x.static_shape[:axis], *indices.static_shape, *x.static_shape[axis + 1 :]))
    if max(x.rank, x.rank + indices.rank - 1) > HIGHEST_RANK:
        shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]
        row = of_shape(indices, [math.prod(indices.shape)]) if indices.rank > 1 else indices
        found = gather(ctx, around(x, axis), row, axis=1)
        return of_shape(found if isinstance(found, Value) else computed(found, x.dtype), shape, x, indices)
    if indices.constant is not None and indices.constant.ndim == 0 and x.rank > 1:
        place = int(indices.constant)
        begin = [place if dim == axis else 0 for dim in range(x.rank)]
        others = [dim != axis for dim in range(x.rank)]
        end = [0 if other else place + 1 for other in others]
        return mb.slice_by_index(
            x=x.var,
            begin=begin,
            end=end,
            begin_mask=others,
            end_mask=[other or place == -1 for other in others],
            squeeze_mask=[not other for other in others],
        )
    if x.constant is not None and x.dtype in EIGHT_BITS and ctx.at_least(ct.target.iOS17):
        # A quantized table stays quantized: in its carrier's type it would be four times as large.
        places = nonnegative(indices, x.static_sizes([axis])[0])
        return computed(mb.gather(x=x.constant, indices=places, axis=axis), x.dtype)
    return gathered(x, indices, axis)


def gathered(x: Value, indices: Value, axis: int) -> Var:
    """Slices of an axis at indices."""
    places = nonnegative(indices, size_along(x, axis))
    return through_int32(x, lambda var: mb.gather(x=var, indices=places, axis=axis))


def size_along(x: Value, axis: int) -> Any:
    """The size along an axis: a number, or if it is open a vector of one element that the program computes."""
    return x.shape[axis] if runtime_shapes.is_number(x.shape[axis]) else runtime_shapes.size_of(x.var, axis)


@lowering("GatherElements", versions=[11, 13])
def gather_elements(ctx: Context, x: Value, indices: Value, *, axis: int = 0) -> Var | Value:
    """One element for every index; its other coordinates are those of the index itself."""
    axis = normalized_axis(axis, x.rank)
    _require_indices_within(x, indices, axis)
    if x.rank > HIGHEST_RANK:
        others = [[size for dim, size in enumerate(value.static_shape) if dim != axis] for value in (x, indices)]
        if others[0] != others[1]:
            places = places_of_elements(x, indices, axis)
            moved = through_int32(
                of_shape(x, [math.prod(x.static_shape)]), lambda var: mb.gather(x=var, indices=places, axis=0)
            )
            return of_shape(computed(moved, x.dtype), indices.static_shape)
        found = gather_elements(ctx, around(x, axis), around(indices, axis), axis=1)
        return of_shape(found if isinstance(found, Value) else computed(found, x.dtype), indices.static_shape)
    places = nonnegative(indices, size_along(x, axis))
    covered = [x if dim == axis else indices for dim in range(x.rank)]
    if any(of.shape[dim] != size for dim, (of, size) in enumerate(zip(covered, x.shape, strict=True))):
        sizes = runtime_shapes.vector([size_along(of, dim) for dim, of in enumerate(covered)])
        x = computed(mb.slice_by_size(x=x.var, begin=[0] * x.rank, size=sizes), x.dtype)
    return through_int32(x, lambda var: mb.gather_along_axis(x=var, indices=places, axis=axis))


def _require_indices_within(x: Value, indices: Value, axis: int) -> None:
    """Raises Infeasible if there are more indices along another axis than elements to take."""
    pairs = zip(indices.shape, x.shape, strict=True)
    if any(
        runtime_shapes.is_number(more) and runtime_shapes.is_number(size) and more > size
        for dim, (more, size) in enumerate(pairs)
        if dim != axis
    ):
        raise Infeasible(
            f"has indices {indices.shape_text} for data {x.shape_text}: only along axis {axis} may there be more",
            "check what the shapes are fixed to",
        )


@lowering("GatherND", versions=[11, 12, 13])
def gather_nd(ctx: Context, x: Value, indices: Value, *, batch_dims: int = 0) -> Var | Value:
    """Slices at index tuples."""
    depth = indices.shape[-1]
    last = batch_dims + int(depth) if runtime_shapes.is_number(depth) else x.rank
    shape = [*indices.shape[:-1], *x.shape[last:]]
    if max(x.rank, indices.rank, len(shape)) > HIGHEST_RANK:
        batch = [math.prod(x.shape[:batch_dims])] if batch_dims else []
        indexed = list(x.shape[batch_dims:last])
        tuples = in_rows(indices, [*batch, math.prod(indices.shape[batch_dims:-1]), depth])
        if len(batch) + len(indexed) + 1 > HIGHEST_RANK:
            tuples, indexed = in_a_row(tuples, x, batch_dims), [math.prod(indexed)]
        slices = of_shape(x, [*batch, *indexed, math.prod(x.shape[last:])], x)
        found = gather_nd(ctx, slices, tuples, batch_dims=len(batch))
        return of_shape(found if isinstance(found, Value) else computed(found, x.dtype), shape, x, indices)
    places = nonnegative_tuples(indices, x, batch_dims)
    return through_int32(x, lambda var: mb.gather_nd(x=var, indices=places, batch_dims=batch_dims))


def in_rows(indices: Value, shape: list[Any]) -> Value:
    """Index tuples in another shape; constant ones stay constant."""
    if indices.constant is not None:
        return constant(indices.constant.reshape(shape), indices.dtype)
    return of_shape(indices, shape, indices)


def in_a_row(indices: Value, x: Value, batch_dims: int = 0) -> Value:
    """Returns index tuples of one element, for a tensor whose indexed dimensions are merged into one.

    Args:
        indices: The tuples, along the last axis.
        x: The tensor that they index, before its dimensions are merged.
        batch_dims: Number of leading dimensions of the tensor that are not indexed.

    Raises:
        Unsupported: An indexed dimension is open.
    """
    sizes = x.static_sizes(range(batch_dims, batch_dims + int(indices.shape[-1])))
    steps = np.cumprod([1, *sizes[:0:-1]])[::-1].astype(np.int32)
    places = mb.mul(x=nonnegative_tuples(indices, x, batch_dims), y=steps)
    return computed(mb.reduce_sum(x=places, axes=[-1], keep_dims=True), indices.dtype)


def nonnegative_tuples(indices: Value, x: Value, batch_dims: int = 0) -> Var:
    """Index tuples that count from the front.

    Args:
        indices: The tuples, along the last axis.
        x: The tensor that they index.
        batch_dims: Number of leading dimensions of the tensor that are not indexed.

    Raises:
        Unsupported: The length of the tuples is known only at run time.
    """
    depth = indices.shape[-1]
    if not runtime_shapes.is_number(depth):
        raise Unsupported("has index tuples of a length that only a run tells", FIX_SIZES)
    array = indices.constant
    if array is not None and not (array < 0).any():
        return mb.const(val=array.astype(np.int32))
    indexed = x.shape[batch_dims : batch_dims + int(depth)]
    if not all(map(runtime_shapes.is_number, indexed)):
        own = mb.shape(x=x.var)
        sizes: Any = mb.slice_by_index(x=own, begin=[batch_dims], end=[batch_dims + int(depth)])
    else:
        sizes = np.array(indexed, np.int32)
        if array is not None:
            return mb.const(val=np.where(array < 0, array + sizes, array).astype(np.int32))
    var = indices.var
    return mb.select(cond=mb.less(x=var, y=0), a=mb.add(x=var, y=sizes), b=var)


@lowering("Scatter", versions=[9, 11])
@lowering("ScatterElements", versions=[11, 13, 16, 18])
def scatter_elements(
    ctx: Context, data: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Var | Value:
    """Writes, adds, multiplies or compares elements at indices along an axis."""
    axis = normalized_axis(axis, data.rank)
    mode = mode_of(reduction)
    if data.rank > HIGHEST_RANK:
        return scatter_in_a_row(data, indices, updates, axis, mode)
    x, values = written(data, updates)
    places = nonnegative(indices, size_along(data, axis))
    if not indices.is_static:
        tuples = runtime_shapes.index_tuples(places, axis)
        return restored(data, mb.scatter_nd(data=x, indices=tuples, updates=values, mode=mode))
    if 0 in indices.static_shape:
        return data
    covers_all = all(
        have == wanted
        for dim, (have, wanted) in enumerate(zip(data.shape, indices.static_shape, strict=True))
        if dim != axis
    )
    if covers_all:
        return restored(data, mb.scatter_along_axis(data=x, indices=places, updates=values, axis=axis, mode=mode))
    if data.rank == HIGHEST_RANK:  # coordinates of the elements would be a tensor of one dimension more
        return scatter_in_a_row(data, indices, updates, axis, mode)
    tuples = index_tuples(places, indices.static_shape, axis)
    return restored(data, mb.scatter_nd(data=x, indices=tuples, updates=values, mode=mode))


def scatter_in_a_row(data: Value, indices: Value, updates: Value, axis: int, mode: str) -> Value:
    """ScatterElements with all elements in a row: for tensors whose coordinates have too many dimensions."""
    if 0 in indices.static_shape:
        return data
    places = places_of_elements(data, indices, axis)
    row = of_shape(data, [math.prod(data.static_shape)])
    new = of_shape(updates, [math.prod(updates.static_shape)])
    x, values = written(row, new)
    result = mb.scatter_along_axis(data=x, indices=places, updates=values, axis=0, mode=mode)
    return of_shape(computed(restored(row, result), data.dtype), data.static_shape)


def places_of_elements(x: Value, indices: Value, axis: int) -> Var:
    """Returns where the elements that ``indices`` choose along an axis are if all elements of ``x`` are in a row.

    Raises:
        Unsupported: A size is open.
    """
    steps = np.cumprod([1, *x.static_shape[:0:-1]])[::-1]
    coordinates = np.indices(indices.static_shape, sparse=True)
    offsets = sum(
        (grid * step for dim, (grid, step) in enumerate(zip(coordinates, steps, strict=True)) if dim != axis),
        np.zeros(indices.static_shape, np.int32),
    )
    along = nonnegative(in_rows(indices, [math.prod(indices.static_shape)]), x.static_shape[axis])
    return mb.add(x=mb.mul(x=along, y=np.int32(steps[axis])), y=offsets.reshape(-1).astype(np.int32))


def index_tuples(places: Var, shape: tuple[int, ...], axis: int) -> Var:
    """Coordinates (*shape, rank) of every element of a tensor of indices, which are the coordinates along the axis."""
    grids = np.meshgrid(*(np.arange(size, dtype=np.int32) for size in shape), indexing="ij")
    columns = [
        mb.expand_dims(x=places, axes=[len(shape)]) if dim == axis else grid[..., np.newaxis]
        for dim, grid in enumerate(grids)
    ]
    return mb.concat(values=columns, axis=len(shape))


@lowering("ScatterND", versions=[11, 13, 16, 18])
def scatter_nd(ctx: Context, data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Var | Value:
    """Writes, adds, multiplies or compares slices at index tuples."""
    if indices.is_static and 0 in indices.static_shape:
        return data
    if max(data.rank, indices.rank, updates.rank) > HIGHEST_RANK:
        depth = indices.static_sizes([-1])[0]
        count, width = math.prod(indices.shape[:-1]), math.prod(data.shape[depth:])
        places_in_a_row = in_a_row(in_rows(indices, [count, depth]), data)
        rows = of_shape(data, [math.prod(data.shape[:depth]), width], data)
        new = of_shape(updates, [count, width], updates)
        found = scatter_nd(ctx, rows, places_in_a_row, new, reduction=reduction)
        return of_shape(found if isinstance(found, Value) else computed(found, data.dtype), data.shape, data)
    places = nonnegative_tuples(indices, data)
    x, values = written(data, updates)
    return restored(data, mb.scatter_nd(data=x, indices=places, updates=values, mode=mode_of(reduction)))


def mode_of(reduction: str) -> str:
    """MIL's name of a reduction."""
    if reduction not in MODES:
        raise Unsupported(f"reduction {reduction!r}")
    return MODES[reduction]


def written(data: Value, updates: Value) -> tuple[Var, Var]:
    """Returns both in a type that MIL's scatter operations take."""
    if data.dtype is not ir.DataType.BOOL:
        return data.var, updates.var
    return mb.cast(x=data.var, dtype="int32"), mb.cast(x=updates.var, dtype="int32")


def restored(data: Value, result: Var) -> Var:
    """The result in the data's type."""
    if data.dtype is ir.DataType.BOOL:
        return mb.cast(x=result, dtype="bool")
    return wrapped(result, data.dtype) if data.is_integer else result


@lowering("NonZero", versions=[9, 13])
def non_zero(ctx: Context, x: Value) -> Value:
    """Coordinates of the nonzero elements, one column each; their number is known only at run time."""
    if x.rank == 0:
        raise Unsupported("of a scalar the result has no rows, which Core ML cannot express")
    number = mb.cast(x=x.var, dtype="int32") if x.dtype is ir.DataType.BOOL else x.var
    return computed(mb.transpose(x=runtime_shapes.positions_of(number), perm=[1, 0]), ir.DataType.INT64)
