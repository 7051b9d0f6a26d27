"""Sorting, and selecting the greatest elements. Equal elements keep the order of their indices in both directions."""

from __future__ import annotations

import numpy as np

from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel


def _order(x: Array, axis: int, ascending: bool) -> Array:
    """Indices that sort ``x`` along an axis, stably in either direction."""
    # Sorting the reversed array and reversing the result keeps equal elements in order, for every element type.
    order: Array = np.argsort(x if ascending else np.flip(x, axis), axis=axis, kind="stable")
    return order if ascending else x.shape[axis] - 1 - np.flip(order, axis)


@kernel("argsort", raw=True)
def argsort(call: Call, x: Array, axis: int = -1, ascending: bool = False) -> Array:
    """Indices that sort ``x`` along an axis."""
    return _order(x, axis, ascending)


@kernel("topk", raw=True)
def topk(
    call: Call,
    x: Array,
    k: int = 1,
    axis: int = -1,
    ascending: bool = False,
    sort: bool = True,
    return_indices: bool = True,
    output_indices_dtype: str = "int32",
) -> tuple[Array, ...]:
    """The ``k`` greatest (if ascending: least) elements along an axis and their indices, sorted; all for ``k = -1``.

    Without ``sort`` Core ML may return any order; this kernel sorts regardless.
    """
    count = x.shape[axis] if k == -1 else k
    indices = np.take(_order(x, axis, ascending), np.arange(count), axis=axis)
    values = np.take_along_axis(x, indices, axis=axis)
    return (values, indices) if return_indices else (values,)
