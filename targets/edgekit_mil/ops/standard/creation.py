"""Operators that create tensors: constants, ranges, one-hot vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import HIGHEST_RANK, Infeasible, Unsupported, Value, computed, constant
from edgekit_mil.support.high_ranks import of_shape
from edgekit_mil.support.iteration import scalar
from edgekit_mil.support.movement import choose, normalized_axis
from edgekit_mil.support.runtime_shapes import counted, is_number, of_sizes, size_of

FAR = 1 << 30
"""A diagonal that is this far from the main one crosses no tensor."""


@lowering("Constant", versions=[1, 9, 11, 12, 13, 19, 21, 23, 24, 25], note="neither texts nor sparse tensors")
def constant_tensor(
    ctx: Context,
    *,
    value: np.ndarray | None = None,
    value_float: float | None = None,
    value_floats: list[float] | None = None,
    value_int: int | None = None,
    value_ints: list[int] | None = None,
    value_string: str | None = None,
    value_strings: list[str] | None = None,
    sparse_value: object = None,
) -> Value:
    """A tensor, a number or a list of numbers."""
    if value is not None:
        return constant(value)
    floats = value_float if value_float is not None else value_floats
    if floats is not None:
        return constant(np.asarray(floats, np.float32))
    integers = value_int if value_int is not None else value_ints
    if integers is not None:
        return constant(np.asarray(integers, np.int64))
    raise Unsupported("neither texts nor sparse tensors can be constants")


@lowering("ConstantOfShape", versions=[9, 20, 21, 23, 24, 25])
def constant_of_shape(ctx: Context, shape: Value, *, value: np.ndarray | None = None) -> Value:
    """A tensor of a given shape filled with one number."""
    filling = np.zeros(1, np.float32) if value is None else value
    if shape.is_constant:
        return constant(np.broadcast_to(filling.reshape(()), tuple(shape.ints("the shape"))))
    dtype = ir.DataType.from_numpy(filling.dtype)
    filling_value = constant(filling.reshape(()), dtype)
    filled = mb.fill(shape=shape.var, value=filling_value.operand)
    return computed(filled if shape.elements is None else of_sizes(filled, list(shape.elements)), dtype)


@lowering("EyeLike", versions=[9, 22])
def eye_like(ctx: Context, x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    """Ones on a diagonal of a matrix."""
    kind = ir.DataType(dtype) if dtype is not None else x.dtype
    rows, columns = x.static_shape
    return constant(np.eye(rows, columns, k, dtype=kind.numpy()), kind)


@lowering("Range", versions=[11, 27])
def number_range(ctx: Context, start: Value, limit: Value, delta: Value, *, stash_type: int = 1) -> Var:
    """Numbers from a start to a limit."""
    return mb.range_1d(start=scalar(start), end=scalar(limit), step=scalar(delta))


@lowering("OneHot", versions=[9, 11, 28], note="depth constant")
def one_hot(ctx: Context, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Var | Value:
    """``on`` at an index along a new axis, ``off`` elsewhere; an index out of range gives ``off`` everywhere."""
    size = depth.ints("the depth")[0]
    rank = indices.rank + 1
    axis = normalized_axis(axis, rank)
    if rank > HIGHEST_RANK:
        before, after = indices.shape[:axis], indices.shape[axis:]
        two = of_shape(indices, [math.prod(before), math.prod(after)], indices)
        found = one_hot(ctx, two, depth, values, axis=1)
        result = found if isinstance(found, Value) else computed(found, values.dtype)
        return of_shape(result, [*before, size, *after], indices)
    places = np.arange(size, dtype=np.int32).reshape([-1 if dim == axis else 1 for dim in range(rank)])
    whole = indices.var if indices.is_integer else mb.cast(x=indices.var, dtype="int32")
    from_front = mb.select(cond=mb.less(x=whole, y=0), a=mb.add(x=whole, y=size), b=whole)
    hit = mb.equal(x=mb.expand_dims(x=from_front, axes=[axis]), y=places)
    off_value, on_value = elements(values)
    return choose(hit, on_value, off_value)


def elements(values: Value) -> tuple[Value, Value]:
    """The two elements of a vector."""
    if values.constant is not None:
        return constant(values.constant[0], values.dtype), constant(values.constant[1], values.dtype)
    first, second = mb.split(x=values.var, num_splits=2, axis=0)
    off, on = (mb.squeeze(x=part, axes=[0]) for part in (first, second))
    return computed(off, values.dtype), computed(on, values.dtype)


@lowering("Trilu", versions=[14])
def trilu(ctx: Context, x: Value, k: Value | None = None, *, upper: int = 1) -> Var | Value:
    """The triangle above or below a diagonal; other elements are 0."""
    if x.rank < 2:
        raise Infeasible(f"needs a matrix, found rank {x.rank}", "check what the shapes are fixed to")
    if x.rank > HIGHEST_RANK:
        found = trilu(ctx, of_shape(x, [math.prod(x.shape[:-2]), *x.shape[-2:]], x), k, upper=upper)
        return of_shape(found if isinstance(found, Value) else computed(found, x.dtype), x.shape, x)
    diagonal: Any = np.int32(0)
    if k is not None:
        diagonal = scalar(k) if k.constant is None else np.int32(np.clip(k.constant.reshape(-1)[0], -FAR, FAR))
    rows, columns = size_of(x.var, x.rank - 2), size_of(x.var, x.rank - 1)
    if is_number(rows) and is_number(columns) and not isinstance(diagonal, Var):
        ones = np.ones((rows, columns), np.bool_)
        kept = np.triu(ones, diagonal) if upper else np.tril(ones, diagonal)
    else:
        first = mb.add(x=mb.expand_dims(x=counted(rows), axes=[1]), y=diagonal)
        compare = mb.greater_equal if upper else mb.less_equal
        kept = compare(x=mb.expand_dims(x=counted(columns), axes=[0]), y=first)
    if x.dtype is ir.DataType.BOOL:
        return mb.logical_and(x=x.var, y=kept)
    return mb.select(cond=kept, a=x.var, b=np.float32(0) if x.is_float else np.int32(0))
