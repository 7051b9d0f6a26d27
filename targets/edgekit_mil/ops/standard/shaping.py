"""Operators that change, read and repeat shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import HIGHEST_RANK, Infeasible, Unsupported, Value, computed, constant, shape_in_words
from edgekit_mil.support import runtime_shapes
from edgekit_mil.support.high_ranks import (
    broadcast_merged,
    merged_blocks,
    of_shape,
    one_axis_at_a_time,
    size_in_program,
    sizes_of,
    transposed,
)
from edgekit_mil.support.movement import broadcast, empty, normalized_axis

BOOLEAN_MASK = 10
"""The version of Dropout from which on its mask is bool instead of numbers of the input's type."""


@lowering("Identity", versions=[1, 13, 14, 16, 19, 21, 23, 24, 25])
def identity(ctx: Context, x: Value) -> Value:
    """The value itself."""
    return x


@lowering("Reshape", versions=[5, 13, 14, 19, 21, 23, 24, 25])
def reshape(ctx: Context, x: Value, shape: Value, *, allowzero: int = 0) -> Var | Value:
    """Reshapes; 0 keeps a size (unless ``allowzero``), -1 takes the remaining elements."""
    elements = None if shape.elements is None else list(shape.elements)
    if elements is not None and len(elements) <= HIGHEST_RANK and runtime_shapes.has_quotients(elements):
        elements = None  # the program computes sizes for which there is no symbol
    if shape.constant is None and elements is None:
        if allowzero and 0 in x.shape:
            raise Unsupported("a size of 0 in a computed shape (allowzero), which Core ML reads as one to keep")
        return runtime_shapes.reshaped(x, shape)
    sizes = shape.ints("the shape") if elements is None else elements
    if not (x.is_static and shape.is_constant):
        if allowzero and 0 in sizes:
            raise Unsupported("a size of 0 with a dynamic input")
        target = runtime_shapes.reshape_target(x.shape, sizes)
        if max(x.rank, len(target)) > HIGHEST_RANK:
            return of_shape(x, runtime_shapes.with_rest(x.shape, target), x, shape)
        if not target:  # Core ML cannot reshape to a scalar
            return mb.squeeze(x=mb.reshape(x=x.var, shape=[1]), axes=[0])
        is_fixed = all(map(runtime_shapes.is_number, target))
        return mb.reshape(x=x.var, shape=target if is_fixed else runtime_shapes.vector_of(target, x, shape))
    source = x.static_shape
    if not allowzero:
        sizes = [source[place] if size == 0 else size for place, size in enumerate(sizes)]
    if -1 in sizes:
        known = math.prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = math.prod(source) // known if known else 0
    if math.prod(sizes) != math.prod(source):
        raise Unsupported(f"{list(source)} cannot be reshaped to {sizes}")
    return of_shape(x, sizes)


@lowering("Flatten", versions=[1, 9, 11, 13, 21, 23, 24, 25])
def flatten(ctx: Context, x: Value, *, axis: int = 1) -> Value:
    """Reshapes to a matrix: the dimensions before the axis, and the others."""
    if not -x.rank <= axis <= x.rank:
        raise Unsupported(f"axis {axis} is outside a tensor of rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    return of_shape(x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])], x)


@lowering("Squeeze", versions=[1, 11])
def squeeze_by_attribute(ctx: Context, x: Value, *, axes: list[int] | None = None) -> Var | Value:
    """Axes from an attribute."""
    return squeezed(x, axes)


@lowering("Squeeze", versions=[13, 21, 23, 24, 25], note="axes constant")
def squeeze(ctx: Context, x: Value, axes: Value | None = None) -> Var | Value:
    """Axes from an input."""
    return squeezed(x, axes.ints("axes") if axes is not None else None)


def squeezed(x: Value, axes: Sequence[int] | None) -> Var | Value:
    """Drops dimensions of size 1: those of the axes, or all if ``axes`` is None."""
    if axes is None:
        axes = [axis for axis, size in enumerate(x.static_shape) if size == 1]
    axes = sorted(normalized_axis(axis, x.rank) for axis in axes)
    if x.rank > HIGHEST_RANK:
        return of_shape(x, [size for axis, size in enumerate(x.shape) if axis not in axes], x)
    if not axes:
        return mb.identity(x=x.var)
    if all(runtime_shapes.is_number(x.shape[axis]) for axis in axes):
        return mb.squeeze(x=x.var, axes=axes)
    # coremltools' squeeze still declares an open dimension in its result, which the program then lacks.
    kept = [axis not in axes for axis in range(x.rank)]
    dropped = [not keeps for keeps in kept]
    limits = {"begin": np.zeros(x.rank, np.int32), "end": np.ones(x.rank, np.int32)}
    return mb.slice_by_index(x=x.var, **limits, begin_mask=kept, end_mask=kept, squeeze_mask=dropped)


@lowering("Unsqueeze", versions=[1, 11])
def unsqueeze_by_attribute(ctx: Context, x: Value, *, axes: list[int]) -> Var | Value:
    """Axes from an attribute."""
    return unsqueezed(x, axes)


@lowering("Unsqueeze", versions=[13, 21, 23, 24, 25], note="axes constant")
def unsqueeze(ctx: Context, x: Value, axes: Value) -> Var | Value:
    """Axes from an input."""
    return unsqueezed(x, axes.ints("axes"))


def unsqueezed(x: Value, axes: Sequence[int]) -> Var | Value:
    """Inserts dimensions of size 1 at the given places of the result."""
    if not axes:
        return mb.identity(x=x.var)
    rank = x.rank + len(axes)
    if rank > HIGHEST_RANK:
        places = {normalized_axis(axis, rank) for axis in axes}
        sizes = iter(x.shape)
        return of_shape(x, [1 if axis in places else next(sizes) for axis in range(rank)], x)
    return mb.expand_dims(x=x.var, axes=sorted(normalized_axis(axis, rank) for axis in axes))


@lowering("Shape", versions=[1, 13, 15, 19, 21, 23, 24, 25])
def shape_of(ctx: Context, x: Value, *, start: int = 0, end: int | None = None) -> Value | Var:
    """Sizes, which are a constant unless a dimension is open."""
    if all(map(runtime_shapes.is_number, x.shape[start:end])):
        return constant(np.array(x.shape[start:end], np.int64))
    sizes = sizes_of(x)
    first, last, _ = slice(start, end).indices(x.rank)
    part = mb.slice_by_index(x=sizes, begin=[first], end=[last])
    return Value(ir.DataType.INT64, variable=part, elements=np.array(x.shape[start:end], object))


@lowering("Size", versions=[1, 13, 19, 21, 23, 24, 25])
def size_of(ctx: Context, x: Value) -> Value | Var:
    """The number of elements."""
    if x.is_static:
        return constant(np.array(math.prod(x.static_shape), np.int64))
    return mb.reduce_prod(x=sizes_of(x), axes=[0], keep_dims=False)


@lowering("Transpose", versions=[1, 13, 21, 23, 24, 25])
def transpose(ctx: Context, x: Value, *, perm: list[int] | None = None) -> Var | Value:
    """Dimensions in another order, reversed unless one is given."""
    order = perm if perm is not None else list(range(x.rank))[::-1]
    if sorted(order) != list(range(x.rank)):
        raise Infeasible(f"has perm {list(order)}: a tensor of rank {x.rank} needs each of its axes once")
    if x.rank > HIGHEST_RANK:
        return transposed(x, order)
    return mb.transpose(x=x.var, perm=order) if x.rank > 1 else mb.identity(x=x.var)


@lowering("Expand", versions=[8, 13])
def expand(ctx: Context, x: Value, shape: Value) -> Var | Value:
    """Dimensions of size 1 repeated, as in broadcasting."""
    if shape.constant is None:
        if shape.elements is not None and max(x.rank, len(shape.elements)) > HIGHEST_RANK:
            return _expanded_wide_and_open(x, shape, list(shape.elements))
        return runtime_shapes.expanded(x, shape)
    if not x.is_static and max(x.rank, shape.static_shape[0]) > HIGHEST_RANK:
        return _expanded_wide_and_open(x, shape, shape.ints("the shape"))
    if not x.is_static:
        return _expanded_beside_open_axes(x, shape)
    target = np.broadcast_shapes(x.static_shape, tuple(shape.ints("the shape")))
    if 0 in target:
        return empty(x.dtype, target)
    if len(target) > HIGHEST_RANK:
        return expanded_wide(x, target)
    return broadcast(x, target)


def _expanded_beside_open_axes(x: Value, shape: Value) -> Var:
    """Repeats along dimensions for which a size other than 1 is asked; an open dimension is kept if the size is 1.

    If another size is asked for, an open dimension either has this size or is 1 and repeated, as run time decides.
    """
    sizes = shape.ints("the shape")
    rank = max(x.rank, len(sizes))
    wanted = [1] * (rank - len(sizes)) + list(sizes)
    x_sizes = [1] * (rank - x.rank) + list(x.shape)
    known = zip(wanted, x_sizes, strict=True)
    if any(runtime_shapes.is_number(have) and 1 not in (want, have) and want != have for want, have in known):
        raise Infeasible(f"cannot repeat {x.shape_text} to {shape_in_words(wanted)}")
    if any(want != 1 and not runtime_shapes.is_number(have) for want, have in zip(wanted, x_sizes, strict=True)):
        repeated = runtime_shapes.expanded(x, constant(np.array(wanted, np.int32)))
        made = [have if want == 1 else want for want, have in zip(wanted, x_sizes, strict=True)]
        return runtime_shapes.of_sizes(repeated, made)
    var = mb.expand_dims(x=x.var, axes=list(range(rank - x.rank))) if rank > x.rank else x.var
    repeats = [want if have == 1 else 1 for want, have in zip(wanted, x_sizes, strict=True)]
    return mb.tile(x=var, reps=repeats) if any(count > 1 for count in repeats) else mb.identity(x=var)


def _expanded_wide_and_open(x: Value, shape: Value, sizes_asked_for: Sequence[Any]) -> Value:
    """Repeats in more dimensions than Core ML has, from or to open sizes.

    Raises:
        Unsupported: More than five dimensions remain, or open sizes may differ.
    """
    blocks, full = merged_blocks([x.shape, sizes_asked_for])
    if len(blocks) > HIGHEST_RANK:
        raise Unsupported(f"repeats {len(blocks)} dimensions apart, Core ML has {HIGHEST_RANK} at most")
    spread = (1,) * (len(full) - x.rank) + x.shape
    merged = [math.prod(spread[axis] for axis in block) for block in blocks]
    sizes = [math.prod(full[axis] for axis in block) for block in blocks]
    counts = [size_in_program(size, [shape]) if own == 1 else 1 for own, size in zip(merged, sizes, strict=True)]
    repeated = mb.tile(x=of_shape(x, merged, x).var, reps=runtime_shapes.vector(counts))
    return of_shape(computed(runtime_shapes.of_sizes(repeated, sizes), x.dtype), full, x, shape)


def expanded_wide(x: Value, target: Sequence[int]) -> Value:
    """Broadcasts to a shape of more dimensions than Core ML has."""
    (merged, whole), _ = broadcast_merged([x, constant(np.zeros(tuple(target), np.bool_))])
    assert merged is not None
    assert whole is not None
    return of_shape(computed(broadcast(merged, whole.static_shape), x.dtype), target)


@lowering("Tile", versions=[6, 13])
def tile(ctx: Context, x: Value, repeats: Value) -> Var | Value:
    """Repeats along every axis."""
    if repeats.constant is None:
        return mb.tile(x=x.var, reps=repeats.var)
    counts = repeats.ints("repeats")
    if 0 in counts:
        return empty(x.dtype, [size * count for size, count in zip(x.static_shape, counts, strict=True)])
    if not counts or all(count == 1 for count in counts):
        return mb.identity(x=x.var)
    if x.rank > HIGHEST_RANK:

        def along(low: Value, place: int, axis: int) -> Value:
            counts_of_low = [counts[axis] if dim == place else 1 for dim in range(low.rank)]
            return computed(mb.tile(x=low.var, reps=counts_of_low), x.dtype)

        return one_axis_at_a_time(x, [axis for axis, count in enumerate(counts) if count != 1], along)
    return mb.tile(x=x.var, reps=counts)


@lowering("Dropout", versions=[7, 10])
def dropout_for_inference(ctx: Context, x: Value, *, ratio: float = 0.5) -> tuple[Value, Value]:
    """Returns the input, and a mask of zeros as in ONNX Runtime; these versions do not define the mask."""
    dtype = ir.DataType.BOOL if ctx.version >= BOOLEAN_MASK else x.dtype
    return x, constant(np.zeros(x.static_shape, dtype.numpy()), dtype)


@lowering("Dropout", versions=[12, 13, 22], note="in training mode only with a ratio of 0")
def dropout(
    ctx: Context, x: Value, ratio: Value | None = None, training_mode: Value | None = None, *, seed: int = 0
) -> tuple[Value, Value]:
    """Returns the input, and a mask that keeps everything: nothing is dropped in inference."""
    if training_mode is not None and bool(training_mode.require_constant("training_mode").any()):
        share = 0.5 if ratio is None else float(ratio.require_constant("ratio").reshape(-1)[0])
        if share:
            raise Unsupported("it draws at random in training mode", "export the model in inference mode")
    return x, kept(x)


def kept(x: Value) -> Value:
    """The mask that keeps everything."""
    return constant(np.ones(x.static_shape, np.bool_), ir.DataType.BOOL)
