"""Reductions over axes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import HIGHEST_RANK, Unsupported, Value, computed, constant
from edgekit_mil.support.high_ranks import of_shape, transposed
from edgekit_mil.support.integer_arithmetic import wrapped
from edgekit_mil.support.movement import normalized_axis
from edgekit_mil.support.runtime_shapes import as_number, may_be_empty, size_of

Reduction = Callable[[Var, list[int], bool], Var]


def mil_reduction(name: str) -> Reduction:
    """The MIL operation of a name."""

    def apply(x: Var, axes: list[int], keep: bool) -> Var:
        result: Var = getattr(mb, name)(x=x, axes=axes, keep_dims=keep)
        return result

    return apply


def mean(x: Var, axes: list[int], keep: bool) -> Var:
    """The mean; 0 for no elements, as in ONNX Runtime."""
    sizes = [x.shape[axis] for axis in axes]
    if not any(map(may_be_empty, sizes)):
        return mb.reduce_mean(x=x, axes=axes, keep_dims=keep)
    counts = [as_number(size_of(x, axis)) for axis in axes]
    count = functools.reduce(lambda one, other: mb.mul(x=one, y=other), counts)
    divisor = mb.cast(x=mb.maximum(x=count, y=np.int32(1)), dtype="fp32")
    return mb.real_div(x=mb.reduce_sum(x=x, axes=axes, keep_dims=keep), y=divisor)


def log_sum(x: Var, axes: list[int], keep: bool) -> Var:
    """The logarithm of the sum."""
    return mb.log(x=mb.reduce_sum(x=x, axes=axes, keep_dims=keep), epsilon=0.0)


def log_sum_exp(x: Var, axes: list[int], keep: bool) -> Var:
    """The logarithm of the sum of exponentials, computed from differences to the maximum.

    If the maximum is infinite, it is the result.
    """
    high = mb.reduce_max(x=x, axes=axes, keep_dims=True)
    is_finite = mb.less(x=mb.abs(x=high), y=np.float32(math.inf))
    shift = mb.select(cond=is_finite, a=high, b=mb.mul(x=0.0, y=mb.sign(x=high)))
    total = mb.reduce_sum(x=mb.exp(x=mb.sub(x=x, y=shift)), axes=axes, keep_dims=True)
    result = mb.add(x=mb.log(x=total, epsilon=0.0), y=shift)
    return result if keep else mb.squeeze(x=result, axes=axes)


REDUCTIONS: dict[str, Reduction] = {
    "ReduceL1": mil_reduction("reduce_l1_norm"),
    "ReduceL2": mil_reduction("reduce_l2_norm"),
    "ReduceLogSum": log_sum,
    "ReduceLogSumExp": log_sum_exp,
    "ReduceMax": mil_reduction("reduce_max"),
    "ReduceMean": mean,
    "ReduceMin": mil_reduction("reduce_min"),
    "ReduceProd": mil_reduction("reduce_prod"),
    "ReduceSum": mil_reduction("reduce_sum"),
    "ReduceSumSquare": mil_reduction("reduce_sum_square"),
}


def _identity(x: Var) -> Var:
    return mb.identity(x=x)


OF_ELEMENTS: dict[str, Callable[[Var], Var]] = {
    "ReduceL1": lambda x: mb.abs(x=x),
    "ReduceL2": lambda x: mb.abs(x=x),
    "ReduceLogSum": lambda x: mb.log(x=x, epsilon=0.0),
    "ReduceSumSquare": lambda x: mb.mul(x=x, y=x),
}
"""The functions of an element that these reductions are over no axes; for other reductions it is the element itself."""
THROUGH_FLOAT = frozenset({"ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"})
"""Reductions that are computed in float32 and truncated if the input has integers."""


@lowering("ReduceSum", versions=[1, 11])
@lowering("ReduceMax", "ReduceMin", versions=[1, 11, 12, 13])
@lowering(
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMean",
    "ReduceProd",
    "ReduceSumSquare",
    versions=[1, 11, 13],
)
def reduce_by_attribute(ctx: Context, x: Value, *, axes: list[int] | None = None, keepdims: int = 1) -> Var | Value:
    """Reduces over axes from an attribute."""
    return reduced(ctx.op_type, x, axes or [], bool(keepdims))


@lowering("ReduceSum", versions=[13], note="axes constant")
@lowering("ReduceMax", "ReduceMin", versions=[18, 20], note="axes constant")
@lowering("ReduceLogSum", "ReduceLogSumExp", versions=[18, 28], note="axes constant")
@lowering("ReduceL1", "ReduceL2", "ReduceMean", "ReduceProd", "ReduceSumSquare", versions=[18], note="axes constant")
def reduce_by_input(
    ctx: Context, x: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Var | Value:
    """Reduces over axes from an input; without any, over all axes, or over none if ``noop_with_empty_axes`` is set."""
    chosen = axes.ints("axes") if axes is not None else []
    if not chosen and noop_with_empty_axes:
        return of_elements(ctx.op_type, x)
    return reduced(ctx.op_type, x, chosen, bool(keepdims))


def of_elements(op_type: str, x: Value) -> Var:
    """The reduction over no axes, in the type of ``x``."""
    function = OF_ELEMENTS.get(op_type, _identity)
    if x.is_integer and op_type in THROUGH_FLOAT:
        return mb.cast(x=function(mb.cast(x=x.var, dtype="fp32")), dtype="int32")
    return function(x.var)


def reduced(op_type: str, x: Value, axes: list[int], keep: bool) -> Var | Value:
    """The reduction over axes; over all axes if ``axes`` is empty."""
    if x.is_static and 0 in x.static_shape:
        return of_nothing(op_type, x, axes or range(x.rank), keep)
    if x.rank == 0:
        as_vector = mb.expand_dims(x=x.var, axes=[0])
        return mb.squeeze(x=over(op_type, x, as_vector, [0], True), axes=[0])
    chosen = sorted({normalized_axis(axis, x.rank) for axis in axes} or range(x.rank))
    if x.rank > HIGHEST_RANK:
        return of_higher_rank(op_type, x, chosen, keep)
    return over(op_type, x, x.var, chosen, keep)


def of_higher_rank(op_type: str, x: Value, axes: list[int], keep: bool) -> Value:
    """The reduction with neighboring dimensions merged if all of them are reduced, or none is.

    If more than five dimensions remain, the reduced ones are moved behind the others.
    """
    shape = x.shape
    blocks = [list(block) for _, block in itertools.groupby(range(x.rank), lambda axis: axis in axes)]
    if len(blocks) > HIGHEST_RANK:
        blocks = [[axis for axis in range(x.rank) if axis not in axes], axes]
        x = transposed(x, [*blocks[0], *axes])
    merged = of_shape(x, [math.prod(shape[axis] for axis in block) for block in blocks], x)
    reduced_blocks = [place for place, block in enumerate(blocks) if block[0] in axes]
    result = computed(over(op_type, x, merged.var, reduced_blocks, True), x.dtype)
    sizes = [1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes]
    return of_shape(result, sizes, x)


def of_nothing(op_type: str, x: Value, axes: Iterable[int], keep: bool) -> Value:
    """The maximum or minimum of no elements: the least or the greatest number of the type."""
    over_axes = {normalized_axis(axis, x.rank) for axis in axes}
    shape = [1 if axis in over_axes else size for axis, size in enumerate(x.static_shape)]
    kind = x.dtype.numpy()
    highest = op_type == "ReduceMin"
    if x.is_float:
        number: object = math.inf if highest else -math.inf
    elif x.is_integer:
        number = np.iinfo(kind).max if highest else np.iinfo(kind).min
    else:
        number = highest
    full = np.full(shape, number, kind)
    return constant(full if keep else full.squeeze(tuple(sorted(over_axes))), x.dtype)


def over(op_type: str, x: Value, var: Var, axes: list[int], keep: bool) -> Var:
    """The reduction, computed in the type that it needs and converted back."""
    function = REDUCTIONS[op_type]
    if x.is_float:
        return function(var, axes, keep)
    if not x.is_integer:
        if op_type not in ("ReduceMax", "ReduceMin"):
            raise Unsupported("is not defined for bool")
        return mb.cast(x=function(mb.cast(x=var, dtype="int32"), axes, keep), dtype="bool")
    if op_type in THROUGH_FLOAT:
        return mb.cast(x=function(mb.cast(x=var, dtype="fp32"), axes, keep), dtype="int32")
    return wrapped(function(var, axes, keep), x.dtype)
