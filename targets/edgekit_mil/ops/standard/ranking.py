"""Order: positions of extremes, the largest elements, distinct elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import HIGHEST_RANK, Infeasible, Unsupported, Value, computed, constant
from edgekit_mil.ops.standard.slicing import sliced_at_run_time
from edgekit_mil.support.high_ranks import along_axis
from edgekit_mil.support.movement import empty, normalized_axis
from edgekit_mil.support.runtime_shapes import as_number, is_number, most_computed, note_limit, positions_of, size_of

PAIRS_LIMIT = 1 << 24
"""Largest number of comparisons in Unique, which compares every element with every other one."""


@lowering("ArgMax", "ArgMin", versions=[1, 11, 12, 13])
def arg_extreme(ctx: Context, x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    """The index of the extreme along an axis: of several equal ones the first, or the last."""
    operation = mb.reduce_argmax if ctx.op_type == "ArgMax" else mb.reduce_argmin

    def place(x: Value, axis: int) -> list[Value]:
        if not select_last_index:
            return [computed(operation(x=x.var, axis=axis, keep_dims=bool(keepdims)), ir.DataType.INT64)]
        from_end = operation(x=mb.reverse(x=x.var, axes=[axis]), axis=axis, keep_dims=bool(keepdims))
        size = size_of(x.var, axis)
        last = size - 1 if is_number(size) else mb.sub(x=as_number(size), y=np.int32(1))
        return [computed(mb.sub(x=last, y=from_end), ir.DataType.INT64)]

    (found,) = along_axis(x, normalized_axis(axis, x.rank), place)
    return found


@lowering("TopK", versions=[1])
def top_k_by_attribute(ctx: Context, x: Value, *, k: int, axis: int = -1) -> list[Value]:
    """The k largest, in order."""
    return along_axis(x, normalized_axis(axis, x.rank), lambda x, axis: largest_elements(x, k, axis, largest=True))


@lowering("TopK", versions=[10])
def top_k_by_input(ctx: Context, x: Value, k: Value, *, axis: int = -1) -> list[Value]:
    """The k largest, in order."""
    return largest_of_any_number(x, k, axis, largest=True)


@lowering("TopK", versions=[11, 24])
def top_k(ctx: Context, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> list[Value]:  # noqa: A002 - ONNX's name
    """The k largest or smallest, in order."""
    return largest_of_any_number(x, k, axis, largest=bool(largest))


def largest_of_any_number(x: Value, k: Value, axis: int, *, largest: bool) -> list[Value]:
    """Values and indices of the k extremes; if k or the size is known only at run time, all are sorted first."""
    if k.constant is not None and (k.constant < 0).any():
        raise Infeasible(f"takes {k.constant.reshape(-1)[0]} elements: the least is 0")
    if x.rank > HIGHEST_RANK:
        axis = normalized_axis(axis, x.rank)
        return along_axis(x, axis, lambda x, axis: largest_of_any_number(x, k, axis, largest=largest))
    axis = normalized_axis(axis, x.rank)
    if not is_number(x.shape[axis]):
        order = computed(mb.argsort(x=x.var, axis=axis, ascending=not largest), ir.DataType.INT64)
        places = sliced_at_run_time(order, constant(np.array([0])), k, [axis])
        note_most(places, axis, k)
        values = mb.gather_along_axis(x=x.var, indices=places, axis=axis)
        return [computed(values, x.dtype), computed(places, ir.DataType.INT64)]
    if k.constant is not None:
        return largest_elements(x, int(k.constant.reshape(-1)[0]), axis, largest=largest)
    ordered = largest_elements(x, x.static_sizes([axis])[0], axis, largest=largest)
    taken = [sliced_at_run_time(part, constant(np.array([0])), k, [axis]) for part in ordered]
    for var in taken:
        note_most(var, axis, k)
    return [computed(var, part.dtype) for var, part in zip(taken, ordered, strict=True)]


def note_most(taken: Var, axis: int, k: Value) -> None:
    """Records that the number of taken elements is at most the limit that the program sets for ``k``."""
    most = most_computed(k.var)
    if most is not None:
        note_limit(taken.shape[axis], most)


def largest_elements(x: Value, k: int, axis: int, *, largest: bool) -> list[Value]:
    """Values and indices of the k extremes along an axis."""
    axis = normalized_axis(axis, x.rank)
    if k == 0:
        shape = [0 if dim == axis else size for dim, size in enumerate(x.static_shape)]
        return [empty(x.dtype, shape), empty(ir.DataType.INT64, shape)]
    values, places = mb.topk(x=x.var, k=k, axis=axis, ascending=not largest)
    return [computed(values, x.dtype), computed(places, ir.DataType.INT64)]


@lowering("Unique", versions=[11, 28], note=f"up to {PAIRS_LIMIT} comparisons of two elements")
def unique(ctx: Context, x: Value, *, axis: int | None = None, sorted: int = 1) -> list[Value]:  # noqa: A002 - ONNX's name
    """Distinct elements, or distinct slices along an axis; their number is known only at run time.

    A slice is chosen if no slice before it is equal. In sorted order, its place is the number of chosen slices that
    come before it lexicographically.
    """
    along = 0 if axis is None else normalized_axis(axis, x.rank)
    order = [along, *(dim for dim in range(x.rank) if dim != along)]
    tensor = mb.reshape(x=x.var, shape=[-1]) if axis is None else mb.transpose(x=x.var, perm=order)
    width = 1 if axis is None else math.prod(x.static_sizes(order[1:]))
    rows = mb.reshape(x=tensor, shape=[-1, width])
    count = rows.shape[0]
    if is_number(count) and count * count * width > PAIRS_LIMIT:
        raise Unsupported(f"{count}² comparisons of {width} elements are over the limit of {PAIRS_LIMIT}")
    order_of_pairs = lexicographic_signs(rows)
    equal = mb.cast(x=mb.equal(x=order_of_pairs, y=0), dtype="int32")
    numbers = numbered(rows)
    is_before = mb.cast(
        x=mb.less(x=mb.expand_dims(x=numbers, axes=[0]), y=mb.expand_dims(x=numbers, axes=[1])), dtype="int32"
    )
    equal_before = mb.reduce_sum(x=mb.mul(x=equal, y=is_before), axes=[1], keep_dims=False)
    is_first = mb.cast(x=mb.equal(x=equal_before, y=0), dtype="int32")
    places = mb.squeeze(x=positions_of(is_first), axes=[1])
    if sorted:
        after = mb.cast(x=mb.greater(x=order_of_pairs, y=0), dtype="int32")
        rank = mb.reduce_sum(x=mb.mul(x=after, y=is_first), axes=[1], keep_dims=False)
        ascending = mb.argsort(x=mb.gather(x=rank, indices=places, axis=0), axis=0, ascending=True)
        places = mb.gather(x=places, indices=ascending, axis=0)
    members = mb.gather(x=equal, indices=places, axis=0)
    kinds = numbered(places)
    results = [
        mb.gather(x=tensor if axis is None else x.var, indices=places, axis=along),
        places,
        mb.reduce_sum(x=mb.mul(x=members, y=mb.expand_dims(x=kinds, axes=[1])), axes=[0], keep_dims=False),
        mb.reduce_sum(x=members, axes=[1], keep_dims=False),
    ]
    dtypes = [x.dtype, ir.DataType.INT64, ir.DataType.INT64, ir.DataType.INT64]
    return [computed(var, dtype) for var, dtype in zip(results, dtypes, strict=True)]


def numbered(rows: Var) -> Any:
    """The numbers of rows from 0 on, in int32."""
    count = rows.shape[0]
    if is_number(count):
        return np.arange(count, dtype=np.int32)
    size = mb.squeeze(x=size_of(rows, 0), axes=[0])
    return mb.range_1d(start=np.int32(0), end=size, step=np.int32(1))


def lexicographic_signs(rows: Var) -> Var:
    """For every pair of rows, the sign of their first difference: (count, count) in int32."""
    left = mb.expand_dims(x=rows, axes=[1])
    right = mb.expand_dims(x=rows, axes=[0])
    above = mb.cast(x=mb.greater(x=left, y=right), dtype="int32")
    signs = mb.sub(x=above, y=mb.cast(x=mb.less(x=left, y=right), dtype="int32"))
    first = mb.reduce_argmax(x=mb.abs(x=signs), axis=2, keep_dims=True)
    return mb.squeeze(x=mb.gather_along_axis(x=signs, indices=first, axis=2), axes=[2])
