"""Whether int32 holds what stands for int64: models with 64-bit integers at their border are checked as they run.

Core ML's widest integer is int32, and what arithmetic does that leaves it is not documented. Here it wraps around, as
processors have it. In a program made of a model of 64-bit integers that would be a wrong result that nobody notices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from edgekit_mlruntime.executor import Step
from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.program import Array

WIDE = frozenset({"int64", "uint64"})
LIMITS = np.iinfo(np.int32)


def _exact(value: Any) -> Array:
    return np.asarray(value, np.int64)


def _rough(value: Any) -> Array:
    """Near enough where the exact result may leave int64 too."""
    return np.asarray(value, np.float64)


def _power(x: Array, y: Array) -> Array:
    return np.power(_rough(x), np.maximum(_rough(y), 0))


def _running_sum(x: Array, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Array:
    source = np.flip(_exact(x), axis) if reverse else _exact(x)
    total = np.cumsum(source, axis)
    return total - source if exclusive else total


def _finite(x: Array) -> Array:
    """Whole numbers of what is finite; infinities and NaN have no integer in any width."""
    return np.where(np.isfinite(x), np.trunc(_rough(x)), 0) if x.dtype.kind == "f" else np.zeros(1)


ARITHMETIC: dict[str, Callable[..., Array]] = {
    "add": lambda x, y: _exact(x) + _exact(y),
    "cast": lambda x, dtype: _finite(x),
    "cumsum": _running_sum,
    "mul": lambda x, y: _rough(x) * _rough(y),
    "pow": _power,
    "reduce_prod": lambda x, axes=None, keep_dims=False: np.asarray(np.prod(_rough(x), axis=axes)),
    "reduce_sum": lambda x, axes=None, keep_dims=False: np.sum(_exact(x), axis=axes),
    "reduce_sum_square": lambda x, axes=None, keep_dims=False: np.sum(np.square(_rough(x)), axis=axes),
    "square": lambda x: np.square(_rough(x)),
    "sub": lambda x, y: _exact(x) - _exact(y),
}
"""Of operations that can leave int32, their results without a limit; of ``cast``, what it is made of."""


def is_wide(dtypes: Iterable[str]) -> bool:
    """Whether any of these element types is wider than int32."""
    return not WIDE.isdisjoint(dtypes)


def require_fit(step: Step, frame: Sequence[Any], results: Sequence[Any]) -> None:
    """Look at an operation that was executed.

    Raises:
        ExecutionError: An integer of its result does not fit int32.
    """
    arithmetic = ARITHMETIC.get(step.call.op_type)
    if arithmetic is None or not results or not isinstance(results[0], np.ndarray) or results[0].dtype != np.int32:
        return
    with np.errstate(all="ignore"):
        exact = arithmetic(**step.inputs(frame))
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
