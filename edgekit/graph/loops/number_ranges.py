"""Ranges of the elements of a scalar or a short list, as far as the nodes that make it determine them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from edgekit.graph.loops.values import INTEGERS, constant_of

LARGEST_EXACT = 2.0**53
"""Integers of a smaller absolute value are exact in the float64 bounds of a range."""


class Range(NamedTuple):
    """The least and the greatest value that each element may have; booleans count as 0 and 1."""

    low: np.ndarray
    high: np.ndarray

    def known(self, place: int) -> int | None:
        """Returns the integer that an element is, or None if the element may have several values."""
        low, high = float(self.low[place]), float(self.high[place])
        return int(low) if low == high and abs(low) < LARGEST_EXACT and low.is_integer() else None


def range_of(value: ir.Value) -> Range | None:
    """Returns the range of each element of a scalar or a list, or None if the number of elements is unknown."""
    constant, node = constant_of(value), value.producer()
    if constant is not None:
        return Range(constant.astype(np.float64), constant.astype(np.float64)) if constant.ndim <= 1 else None
    found = None if node is None or node.domain else _made(node)
    return _unknown(value) if found is None else found


def _unknown(value: ir.Value) -> Range | None:
    if value.shape is None or len(value.shape) > 1 or not value.shape.is_static():
        return None
    sizes = value.shape.numpy()
    low, high = (0.0, 1.0) if value.dtype is ir.DataType.BOOL else (-np.inf, np.inf)
    return Range(np.full(sizes, low), np.full(sizes, high))


def _made(node: ir.Node) -> Range | None:
    """Returns the range of a node's result, or None for operators that are not evaluated."""
    make = _MAKING.get(node.op_type)
    if make is None or not node.inputs or node.inputs[0] is None:
        return None
    if node.op_type in _OF_FIRST:
        first = range_of(node.inputs[0])
        return None if first is None else make(node, [first])
    found = [None if value is None else range_of(value) for value in node.inputs]
    ranges = [each for each in found if each is not None]
    return make(node, ranges) if len(ranges) == len(found) else None


def _same(node: ir.Node, ranges: list[Range]) -> Range:
    return ranges[0]


def _as_list(node: ir.Node, ranges: list[Range]) -> Range | None:
    (given,) = ranges
    return Range(given.low.reshape(1), given.high.reshape(1)) if given.low.ndim == 0 else None


def _as_scalar(node: ir.Node, ranges: list[Range]) -> Range | None:
    (given,) = ranges
    return Range(given.low.reshape(()), given.high.reshape(())) if given.low.size == 1 else None


def _cast(node: ir.Node, ranges: list[Range]) -> Range | None:
    """Returns the range in another type; the conversion keeps the order of numbers.

    Integers that may not fit the target type have no known range. Floats beyond the target integer type convert to
    undefined values, so any range is right for them.
    """
    (given,), before = ranges, None if node.inputs[0] is None else node.inputs[0].dtype
    dtype = ir.DataType(node.attributes["to"].as_int())
    if dtype.is_floating_point():
        with np.errstate(over="ignore"):  # numbers beyond the type's range become infinite
            low, high = (np.asarray(bound.astype(dtype.numpy()), np.float64) for bound in given)
        return Range(low, high)
    if dtype not in INTEGERS or before is None:
        return None
    limits = np.iinfo(dtype.numpy())
    is_inside = bool(np.all(given.low >= limits.min) and np.all(given.high <= limits.max))
    if before.is_floating_point() or before in (dtype, ir.DataType.BOOL, ir.DataType.INT32) or is_inside:
        return Range(np.trunc(given.low), np.trunc(given.high))
    return None


def _joined(node: ir.Node, ranges: list[Range]) -> Range | None:
    if any(each.low.ndim != 1 for each in ranges):
        return None
    return Range(np.concatenate([each.low for each in ranges]), np.concatenate([each.high for each in ranges]))


def _greatest(node: ir.Node, ranges: list[Range]) -> Range:
    return _folded(np.maximum, ranges)


def _least(node: ir.Node, ranges: list[Range]) -> Range:
    return _folded(np.minimum, ranges)


def _folded(function: Callable[[np.ndarray, np.ndarray], np.ndarray], ranges: list[Range]) -> Range:
    low, high = ranges[0]
    for each in ranges[1:]:
        low, high = function(low, each.low), function(high, each.high)
    return Range(np.asarray(low), np.asarray(high))


def _chosen(node: ir.Node, ranges: list[Range]) -> Range:
    condition, one, other = ranges
    always, never = condition.low > 0, condition.high < 1
    low = np.where(always, one.low, np.where(never, other.low, np.minimum(one.low, other.low)))
    high = np.where(always, one.high, np.where(never, other.high, np.maximum(one.high, other.high)))
    return Range(low, high)


def _less(node: ir.Node, ranges: list[Range]) -> Range:
    one, other = ranges
    return Range(np.asarray(one.high < other.low, np.float64), np.asarray(one.low < other.high, np.float64))


def _greater(node: ir.Node, ranges: list[Range]) -> Range:
    return _less(node, ranges[::-1])


def _negated(node: ir.Node, ranges: list[Range]) -> Range:
    (given,) = ranges
    return Range(1 - given.high, 1 - given.low)


_MAKING: dict[str, Callable[[ir.Node, list[Range]], Range | None]] = {
    "And": _least,
    "Cast": _cast,
    "Concat": _joined,
    "Greater": _greater,
    "Identity": _same,
    "Less": _less,
    "Max": _greatest,
    "Min": _least,
    "Not": _negated,
    "Or": _greatest,
    "Squeeze": _as_scalar,
    "Unsqueeze": _as_list,
    "Where": _chosen,
}
_OF_FIRST = frozenset(["Squeeze", "Unsqueeze"])
"""Operators whose range follows from their first input; their other inputs are axes."""
