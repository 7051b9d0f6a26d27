"""Ranges whose step leads away from their limit: ONNX gives no numbers, OpenVINO's CPU plugin counts the distance.

Where the borders are computed, the plugin makes ``Range(2, 0, 1)`` the numbers 2 and 3 (seen in OpenVINO 2026.4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

KIND = "Range"

_OF_ONE = {"Broadcast", "Convert", "Gather", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Squeeze"}
_OF_ONE |= {"StridedSlice", "Unsqueeze"}
"""Operations that make no number below 0 if their first operand has none."""
_OF_ALL = {"Add", "Concat", "Divide", "Minimum", "Multiply"}
"""Operations that make no number below 0 if no operand has one."""


def keep_empty_ranges(numbers: Any) -> None:
    """Ends a range where it starts if its step leads away from its limit; one from 0 to a size is left unchanged.

    Args:
        numbers: The operation: start, limit and step.
    """
    from openvino import opset13

    start, limit, step = (numbers.input_value(place) for place in range(3))
    if all(_constant(value) is not None for value in (start, limit, step)):
        return  # folded as ONNX defines it
    if _is(start, lambda value: value <= 0) and _is(step, lambda value: value > 0) and _is_not_negative(limit):
        return
    given = numbers.get_element_type()
    start, limit, step = (
        value if value.get_element_type() == given else opset13.convert(value, given.get_type_name()).output(0)
        for value in (start, limit, step)
    )
    zero = opset13.constant(np.zeros((), given.to_dtype()))
    leads_away = opset13.logical_xor(opset13.less(limit, start), opset13.less(step, zero))
    numbers.input(1).replace_source_output(opset13.select(leads_away, start, limit).output(0))


def _constant(value: Any) -> np.ndarray | None:
    node = value.get_node()
    return np.asarray(node.data) if node.get_type_name() == "Constant" else None


def _is(value: Any, holds: Callable[[np.ndarray], Any]) -> bool:
    """Whether a value is a constant for all of whose numbers something holds."""
    array = _constant(value)
    return array is not None and bool(np.all(holds(array)))


def _is_not_negative(value: Any, known: dict[str, bool] | None = None) -> bool:
    """Whether a value is computed from sizes and constants in a way that gives no number below 0.

    Args:
        value: The output of an operation.
        known: What was found of operations before, by their names.
    """
    known = {} if known is None else known
    node = value.get_node()
    if node.get_name() not in known:
        known[node.get_name()] = _gives_none_below_0(node, known)
    return known[node.get_name()]


def _gives_none_below_0(node: Any, known: dict[str, bool]) -> bool:
    kind = node.get_type_name()
    if kind == "Constant":
        return _is(node.output(0), lambda array: array >= 0)
    places = range(node.get_input_size())
    if kind in _OF_ONE:
        return _is_not_negative(node.input_value(0), known)
    if kind == "Maximum":
        return any(_is_not_negative(node.input_value(place), known) for place in places)
    if kind in _OF_ALL:
        return all(_is_not_negative(node.input_value(place), known) for place in places)
    return bool(kind == "ShapeOf")
