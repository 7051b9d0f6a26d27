"""Checks that int32 holds the integers of a model that has 64-bit integers at its border, while the model runs.

Core ML's widest integer is int32, and its behavior on overflow is not documented. In this runtime int32 wraps around,
as it does on processors. In a program made from a model with 64-bit integers, an overflow would be an unnoticed wrong
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from edgekit_mlruntime.executor import Step
from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.kernels.gathering import scatter, scatter_along_axis, scatter_nd
from edgekit_mlruntime.program import Array

WIDE = frozenset({"int64", "uint64"})
LIMITS = np.iinfo(np.int32)


def _exact(value: Any) -> Array:
    return np.asarray(value, np.int64)


def _rough(value: Any) -> Array:
    """float64, accurate enough for the check of operations whose exact result may exceed int64 too."""
    return np.asarray(value, np.float64)


def _power(x: Array, y: Array) -> Array:
    return np.power(_rough(x), np.maximum(_rough(y), 0))


def _quotient(x: Array, y: Array) -> Array:
    """Returns ``x / y``; only the least int32 divided by -1 does not fit int32."""
    return _rough(x) / np.where(y == 0, 1, y)


def _product(x: Array, y: Array, transpose_x: bool = False, transpose_y: bool = False) -> Array:
    left, right = _rough(x), _rough(y)
    left = left.swapaxes(-1, -2) if transpose_x and x.ndim > 1 else left
    return np.asarray(left @ (right.swapaxes(-1, -2) if transpose_y and y.ndim > 1 else right))


def _linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    product = _product(x, weight, transpose_y=True)
    return product if bias is None else product + bias


def _running_sum(x: Array, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Array:
    source = np.flip(_exact(x), axis) if reverse else _exact(x)
    total = np.cumsum(source, axis)
    return total - source if exclusive else total


def _finite(x: Array) -> Array:
    """Returns the whole parts of finite floats; infinities and NaN, which fit no integer type, become 0."""
    return np.where(np.isfinite(x), np.trunc(_rough(x)), 0) if x.dtype.kind == "f" else np.zeros(1)


ARITHMETIC: dict[str, Callable[..., Array]] = {
    "abs": lambda x: np.abs(_exact(x)),
    "add": lambda x, y: _exact(x) + _exact(y),
    "cast": lambda x, dtype: _finite(x),
    "cumsum": _running_sum,
    "einsum": lambda values, equation: np.einsum(equation, *map(_rough, values), optimize=True),
    "floor_div": _quotient,
    "linear": _linear,
    "matmul": _product,
    "mul": lambda x, y: _rough(x) * _rough(y),
    "pow": _power,
    "real_div": _quotient,
    "reduce_l1_norm": lambda x, axes=None, keep_dims=False: np.sum(np.abs(_exact(x)), axis=axes),
    "reduce_prod": lambda x, axes=None, keep_dims=False: np.asarray(np.prod(_rough(x), axis=axes)),
    "reduce_sum": lambda x, axes=None, keep_dims=False: np.sum(_exact(x), axis=axes),
    "reduce_sum_square": lambda x, axes=None, keep_dims=False: np.sum(np.square(_rough(x)), axis=axes),
    "square": lambda x: np.square(_rough(x)),
    "sub": lambda x, y: _exact(x) - _exact(y),
}
"""For each operation that can overflow int32, a function that computes its result in a wider type.

The function of ``cast`` returns the whole parts of what is converted.
"""
SCATTERING: dict[str, Callable[..., Array]] = {
    "scatter": scatter,
    "scatter_along_axis": scatter_along_axis,
    "scatter_nd": scatter_nd,
}
"""Operations that add to or multiply integers at given indices: their kernels can compute in float64 as well."""


def is_wide(dtypes: Iterable[str]) -> bool:
    """Whether any of these element types is wider than int32."""
    return not WIDE.isdisjoint(dtypes)


def _scattered(step: Step, inputs: Mapping[str, Any]) -> Array:
    """Returns the result of a scattering operation computed in float64."""
    wide = {name: _rough(inputs[name]) for name in ("data", "updates")}
    return SCATTERING[step.call.op_type](step.call, **{**inputs, **wide})


def require_fit(step: Step, frame: Sequence[Any], results: Sequence[Any]) -> None:
    """Check the result of an operation that was executed.

    Raises:
        ExecutionError: An integer of the exact result does not fit int32.
    """
    op_type = step.call.op_type
    can_leave = op_type in ARITHMETIC or op_type in SCATTERING
    if not can_leave or not results or not isinstance(results[0], np.ndarray) or results[0].dtype != np.int32:
        return
    with np.errstate(all="ignore"):
        inputs = step.inputs(frame)
        exact = ARITHMETIC[op_type](**inputs) if op_type in ARITHMETIC else _scattered(step, inputs)
    if not exact.size:
        return
    worst = max(exact.min(), exact.max(), key=abs)
    if exact.min() < LIMITS.min or exact.max() > LIMITS.max:
        raise ExecutionError(
            f"{step.call.op_type} gives an integer that does not fit int32, Core ML's widest",
            operation=step.call.name,
            expected=f"{LIMITS.min} to {LIMITS.max}",
            found=int(worst) if np.isfinite(worst) else worst,
        )
