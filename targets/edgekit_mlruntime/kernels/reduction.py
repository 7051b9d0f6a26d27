"""Reductions over axes; by default over all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel

_Reduction = Callable[[Array, Ints | None, bool], Array]


def _log_sum_exp(x: Array, axes: Ints | None, keep_dims: bool) -> Array:
    """``log(sum(exp(x)))``, shifted by the maximum so that exp cannot overflow."""
    highest = np.max(x, axis=axes, keepdims=True)
    shift = np.where(np.isfinite(highest), highest, 0)
    total: Array = np.log(np.sum(np.exp(x - shift), axis=axes, keepdims=True)) + shift
    return total if keep_dims else np.squeeze(total, axis=axes)


_REDUCTIONS: dict[str, _Reduction] = {
    "reduce_l1_norm": lambda x, axes, keep_dims: np.sum(np.abs(x), axis=axes, keepdims=keep_dims),
    "reduce_l2_norm": lambda x, axes, keep_dims: np.sqrt(np.sum(np.square(x), axis=axes, keepdims=keep_dims)),
    "reduce_log_sum": lambda x, axes, keep_dims: np.log(np.sum(x, axis=axes, keepdims=keep_dims)),
    "reduce_log_sum_exp": _log_sum_exp,
    "reduce_max": lambda x, axes, keep_dims: np.max(x, axis=axes, keepdims=keep_dims),
    "reduce_mean": lambda x, axes, keep_dims: np.mean(x, axis=axes, keepdims=keep_dims),
    "reduce_min": lambda x, axes, keep_dims: np.min(x, axis=axes, keepdims=keep_dims),
    "reduce_prod": lambda x, axes, keep_dims: np.prod(x, axis=axes, keepdims=keep_dims),
    "reduce_sum": lambda x, axes, keep_dims: np.sum(x, axis=axes, keepdims=keep_dims),
    "reduce_sum_square": lambda x, axes, keep_dims: np.sum(np.square(x), axis=axes, keepdims=keep_dims),
}
_EXACT = frozenset({"reduce_max", "reduce_min"})
"""Operations whose results on float16 values are float16 values: they need no rounding."""


def _register(name: str, function: _Reduction) -> None:
    """Make a function the kernel of a reduction over several axes."""

    def compute(call: Call, x: Array, axes: Ints | None = None, keep_dims: bool = False) -> Array:
        return function(x, axes, keep_dims)

    kernel(name, raw=name in _EXACT)(compute)


for _name, _function in _REDUCTIONS.items():
    _register(_name, _function)


@kernel("reduce_argmax", raw=True)
def reduce_argmax(call: Call, x: Array, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32") -> Array:
    """Index of the maximum along an axis; the first index if the maximum occurs more than once."""
    index: Array = np.argmax(x, axis=axis, keepdims=keep_dims)
    return index


@kernel("reduce_argmin", raw=True)
def reduce_argmin(call: Call, x: Array, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32") -> Array:
    """Index of the minimum along an axis; the first index if the minimum occurs more than once."""
    index: Array = np.argmin(x, axis=axis, keepdims=keep_dims)
    return index
