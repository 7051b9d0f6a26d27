"""Reductions along dimensions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, Ints, lowering
from edgekit_coreai.translation.tensors import Tensor

_Reduction = Callable[[Builder, Tensor, list[int]], Tensor]


def _log_sum_exp(b: Builder, x: Tensor, axes: list[int]) -> Tensor:
    """``log(sum(exp(x)))``, shifted by the maximum so that exp cannot overflow."""
    highest = b.reduce("reduce_max", x, axes)
    finite = b.less(b.op("abs_", highest), np.inf)
    shift = b.select(finite, highest, 0)
    total = b.reduce("reduce_sum", b.op("exp", b.sub(x, shift)), axes)
    return b.add(b.op("log", total), shift)


_REDUCTIONS: dict[str, _Reduction] = {
    "reduce_l1_norm": lambda b, x, axes: b.reduce("reduce_sum", b.op("abs_", x), axes),
    "reduce_l2_norm": lambda b, x, axes: b.op("sqrt", b.reduce("reduce_sum", b.mul(x, x), axes)),
    "reduce_log_sum": lambda b, x, axes: b.op("log", b.reduce("reduce_sum", x, axes)),
    "reduce_log_sum_exp": _log_sum_exp,
    "reduce_max": lambda b, x, axes: b.reduce("reduce_max", x, axes),
    "reduce_mean": lambda b, x, axes: b.reduce("reduce_mean", x, axes),
    "reduce_min": lambda b, x, axes: b.reduce("reduce_min", x, axes),
    "reduce_prod": lambda b, x, axes: b.reduce("reduce_product", x, axes),
    "reduce_sum": lambda b, x, axes: b.reduce("reduce_sum", x, axes),
    "reduce_sum_square": lambda b, x, axes: b.reduce("reduce_sum", b.mul(x, x), axes),
}
_EXACT = frozenset({"reduce_max", "reduce_min"})


def _register(name: str, function: _Reduction) -> None:
    def write(b: Builder, call: Call, x: Tensor, axes: Ints | None = None, keep_dims: bool = False) -> Tensor:
        over = sorted({axis % max(x.rank, 1) for axis in (range(x.rank) if axes is None else axes)})
        if x.rank == 0:
            over = []
        made = function(b, x if name in _EXACT else b.wide(x), over)
        return made if keep_dims else b.squeeze(made, over)

    lowering(name)(write)


for _name, _function in _REDUCTIONS.items():
    _register(_name, _function)


@lowering("reduce_argmax")
def reduce_argmax(
    b: Builder, call: Call, x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32"
) -> Tensor:
    """Index of the maximum along an axis; the first index if the maximum occurs more than once."""
    made = b.op("argmax", x, np.array(axis % x.rank, np.int32))
    return made if keep_dims else b.squeeze(made, [axis % x.rank])


@lowering("reduce_argmin")
def reduce_argmin(
    b: Builder, call: Call, x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32"
) -> Tensor:
    """Index of the minimum along an axis; the first index if the minimum occurs more than once."""
    # -1 - x reverses the order of integers without leaving their range.
    reversed_order = b.negative(x) if x.is_float else b.sub(b.like(np.array(-1).astype(x.dtype).item(), x), x)
    return reduce_argmax(b, call, reversed_order, axis, keep_dims)
