"""Softmax, LogSoftmax and Hardmax."""

from __future__ import annotations

import math
from collections.abc import Callable

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Value, computed
from edgekit_mil.support.high_ranks import along_axis, of_shape
from edgekit_mil.support.movement import normalized_axis
from edgekit_mil.support.runtime_shapes import counted, size_of

FIRST_ALONG_ONE_AXIS = 13
"""Up to opset 12 the input is treated as a matrix: all dimensions from the axis on are normalized together."""


@lowering("Softmax", "LogSoftmax", "Hardmax", versions=[1, 11, 13])
def normalized(ctx: Context, x: Value, *, axis: int | None = None) -> Var | Value:
    """Softmax, its logarithm, or 1 at the first maximum and 0 elsewhere."""
    function = FUNCTIONS[ctx.op_type]
    if ctx.version >= FIRST_ALONG_ONE_AXIS:
        axis = normalized_axis(-1 if axis is None else axis, x.rank)
        (result,) = along_axis(x, axis, lambda x, axis: [computed(function(x.var, axis), x.dtype)])
        return result
    axis = 1 if axis is None else normalized_axis(axis, x.rank)
    if axis == x.rank - 1:
        return function(x.var, axis)
    matrix = of_shape(x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])], x)
    return of_shape(computed(function(matrix.var, 1), x.dtype), x.shape, x)


def softmax(x: Var, axis: int) -> Var:
    """Exponentials over their sum."""
    return mb.softmax(x=x, axis=axis)


def log_softmax(x: Var, axis: int) -> Var:
    """Logarithm of the softmax, from differences to the maximum so that nothing overflows or vanishes."""
    shifted = mb.sub(x=x, y=mb.reduce_max(x=x, axes=[axis], keep_dims=True))
    total = mb.reduce_sum(x=mb.exp(x=shifted), axes=[axis], keep_dims=True)
    return mb.sub(x=shifted, y=mb.log(x=total, epsilon=0.0))


def hardmax(x: Var, axis: int) -> Var:
    """1 at the first maximum, 0 elsewhere."""
    first = mb.reduce_argmax(x=x, axis=axis, keep_dims=True)
    places = mb.reshape(x=counted(size_of(x, axis)), shape=[-1 if dim == axis % x.rank else 1 for dim in range(x.rank)])
    return mb.cast(x=mb.equal(x=first, y=places), dtype="fp32")


FUNCTIONS: dict[str, Callable[[Var, int], Var]] = {
    "Softmax": softmax,
    "LogSoftmax": log_softmax,
    "Hardmax": hardmax,
}
