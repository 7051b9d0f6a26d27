"""Cumulative sums and products, reversed sequences, and caches that are updated in place."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb, types
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Infeasible, Unsupported, Value, computed
from edgekit_mil.support.high_ranks import along_axis
from edgekit_mil.support.integer_arithmetic import wrapped
from edgekit_mil.support.movement import broadcast, normalized_axis


@lowering("CumSum", versions=[11, 14], note="axis constant")
def cumulative_sum(ctx: Context, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    """Cumulative sums along an axis, including each element itself unless ``exclusive``."""

    def total(x: Value, axis: int) -> list[Value]:
        if exclusive and x.var.val is not None:  # coremltools (9.0) fails to evaluate exclusive sums of constants
            sums = mb.const(val=_sums_before(x.var.val, axis, bool(reverse)))
        else:
            sums = mb.cumsum(x=x.var, axis=axis, exclusive=bool(exclusive), reverse=bool(reverse))
        return [computed(wrapped(sums, x.dtype), x.dtype)]

    (found,) = along_axis(x, normalized_axis(axis.ints("axis")[0], x.rank), total)
    return found


def _sums_before(numbers: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    """Sums of the elements before each element along an axis, or after it in reverse."""
    ordered = np.flip(numbers, axis) if reverse else numbers
    earlier = np.delete(ordered, -1, axis)
    sums = np.cumsum(np.concatenate([np.zeros_like(ordered.take([0], axis)), earlier], axis), axis, numbers.dtype)
    return np.flip(sums, axis) if reverse else sums


@lowering("CumProd", versions=[26], note="axis constant")
def cumulative_product(ctx: Context, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Var:
    """Cumulative products by doubling: each step multiplies by the element 1, 2, 4 … places before."""
    along = normalized_axis(axis.ints("axis")[0], x.rank)
    size = x.static_shape[along]
    product = mb.reverse(x=x.var, axes=[along]) if reverse else x.var
    if exclusive:
        product = moved_on(product, along, 1)
    distance = 1
    while distance < size:
        product = wrapped(mb.mul(x=product, y=moved_on(product, along, distance)), x.dtype)
        distance *= 2
    return mb.reverse(x=product, axes=[along]) if reverse else mb.identity(x=product)


def moved_on(x: Var, axis: int, places: int) -> Var:
    """Shifts elements to later places along an axis, and puts ones before them."""
    shape = list(x.shape)
    shape[axis] -= places
    kept = mb.slice_by_size(x=x, begin=[0] * x.rank, size=shape)
    shape[axis] = places
    carrier = np.int32 if types.is_int(x.dtype) else np.float32
    return mb.concat(values=[np.ones(shape, carrier), kept], axis=axis)


@lowering("ReverseSequence", versions=[10, 28])
def reverse_sequence(ctx: Context, x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0) -> Var:
    """Reverses the first elements of every sequence, as many as its length says."""
    if batch_axis == time_axis:
        raise Infeasible(f"has the same axis for batches and times: {time_axis}")
    return mb.reverse_sequence(x=x.var, lengths=lengths.var, seq_axis=time_axis, batch_axis=batch_axis)


@lowering("TensorScatter", versions=[24])
def tensor_scatter(
    ctx: Context, cache: Value, update: Value, places: Value | None = None, *, axis: int = -2, mode: str = "linear"
) -> Var:
    """Writes an update into each batch member's cache from its place on; ``circular`` goes on at the beginning."""
    if mode not in ("linear", "circular"):
        raise Unsupported(f"mode {mode!r}")
    axis = normalized_axis(axis, cache.rank)
    steps = np.arange(update.static_shape[axis], dtype=np.int32)
    along = steps.reshape([-1 if dim == axis else 1 for dim in range(cache.rank)])
    if places is None:
        indices = mb.const(val=along)
    else:
        starts = mb.reshape(x=places.var, shape=[-1, *(1,) * (cache.rank - 1)])
        indices = mb.add(x=starts, y=along)
    if mode == "circular":
        indices = mb.mod(x=indices, y=cache.static_shape[axis])
    everywhere = broadcast(computed(indices, ir.DataType.INT32), update.static_shape)
    return mb.scatter_along_axis(data=cache.var, indices=everywhere, updates=update.var, axis=axis, mode="update")
