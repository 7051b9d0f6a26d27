"""Helpers of operators that move elements without computing: axes, shapes, types that MIL's operations lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import Infeasible, Unsupported, Value, computed, constant


def through_int32(x: Value, move: Callable[[Var], Var]) -> Var:
    """Apply an operation that does not take bool: truth values are passed as 0 and 1."""
    if x.dtype is not ir.DataType.BOOL:
        return move(x.var)
    return mb.cast(x=move(mb.cast(x=x.var, dtype="int32")), dtype="bool")


def normalized_axis(axis: int, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        Infeasible: The tensor has no such axis.
    """
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise Infeasible(f"axis {axis} is outside a tensor of rank {rank}")
    return axis % max(rank, 1)


def reshaped(x: Value, shape: Sequence[int]) -> Var:
    """The elements in another shape."""
    if not shape:
        return mb.squeeze(x=x.var) if x.rank else mb.identity(x=x.var)
    if x.rank == 0:
        return mb.expand_dims(x=x.var, axes=list(range(len(shape))))
    return mb.reshape(x=x.var, shape=[int(size) for size in shape])


def nonnegative(indices: Value, size: Any) -> Var:
    """Returns indices that count from the front: since iOS 17, MIL treats a negative index as out of range.

    Args:
        indices: The indices.
        size: The size of the indexed dimension: a number, or a vector of one element that the program computes.
    """
    array = indices.constant
    if array is not None and not (isinstance(size, Var) and (array < 0).any()):
        return mb.const(
            val=(array if isinstance(size, Var) else np.where(array < 0, array + size, array)).astype(np.int32)
        )
    var = indices.var
    if isinstance(size, Var):
        size = mb.squeeze(x=size, axes=[0])
    return mb.select(cond=mb.less(x=var, y=0), a=mb.add(x=var, y=size), b=var)


def choose(condition: Var, a: Value, b: Value) -> Var:
    """``a`` where the condition holds, else ``b``, all broadcast.

    MIL takes the result's shape from ``a`` and ``b`` alone, so one of them has to have the full shape.
    """
    if not (a.is_static and b.is_static and computed(condition, ir.DataType.BOOL).is_static):
        return mb.select(cond=condition, a=a.var, b=spread(b, condition))
    full = np.broadcast_shapes(fixed(condition), a.static_shape, b.static_shape)
    if np.broadcast_shapes(a.static_shape, b.static_shape) == full:
        return mb.select(cond=condition, a=a.var, b=b.var)
    if b.constant is not None and b.constant.size == 1:
        filled = mb.fill(shape=list(full), value=b.operand.reshape(())[()])
        return mb.select(cond=condition, a=a.var, b=filled)
    return mb.select(cond=condition, a=a.var, b=broadcast(b, full))


def spread(x: Value, like: Var) -> Var:
    """Broadcasts a value with a bool tensor whose sizes are known only at run time."""
    if x.dtype is ir.DataType.BOOL:
        return mb.logical_or(x=x.var, y=mb.logical_and(x=like, y=False))
    dtype, zero = ("fp32", np.float32(0)) if x.is_float else ("int32", np.int32(0))
    return mb.add(x=x.var, y=mb.mul(x=mb.cast(x=like, dtype=dtype), y=zero))


def fixed(var: Var) -> tuple[int, ...]:
    """A variable's sizes.

    Raises:
        Unsupported: A dimension is dynamic.
    """
    return computed(var, ir.DataType.UNDEFINED).static_shape


def broadcast(x: Value, target: Sequence[int]) -> Var:
    """A value in a shape that it broadcasts to."""
    if 0 in target:
        return empty(x.dtype, target).var
    filled = [1] * (len(target) - x.rank) + list(x.static_shape)
    var = x.var if len(filled) == x.rank else reshaped(x, filled)
    repeats = [size // have for size, have in zip(target, filled, strict=True)]
    if all(count == 1 for count in repeats):
        return mb.identity(x=var)
    return mb.tile(x=var, reps=repeats)


def empty(dtype: ir.DataType, shape: Sequence[int]) -> Value:
    """A constant without elements."""
    return constant(np.zeros(tuple(shape), dtype.numpy()), dtype)


def along_channels(value: Value, rank: int) -> Var:
    """A vector [C] that broadcasts along axis 1 of a tensor of some rank.

    Raises:
        Unsupported: A tensor of this rank has no axis 1.
    """
    if rank < 2:
        raise Unsupported(f"needs channels, found rank {rank}")
    shape = [1, -1, *([1] * (rank - 2))]
    if value.is_constant:
        return mb.const(val=value.operand.reshape(shape))
    return mb.reshape(x=value.var, shape=shape)
