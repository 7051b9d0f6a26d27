"""Keeps constants of two consecutive operations apart where OpenVINO would join them and change the result.

OpenVINO 2026.4 makes, of constants ``c`` and ``d``,

- ``x * d - c * d`` of ``(x - c) * d`` (``AddMultiplyFusion``). Both terms are rounded in the last place of ``c * d``,
  while the difference is exact where ``x`` is near ``c``: a year, or a column that hardly varies;
- ``x + (c + d)`` of ``(x + c) + d`` (``AddAddFusion``), with the same loss. With both, the relative positions ``d`` of
  T5 in ``(1 - mask) * -3.4e38 + d`` were lost;
- ``x * (c * d)`` of ``(x * c) * d`` (``MultiplyMultiplyFusion``), where ``c * d`` may be infinite or 0 though ``x * c``
  is neither: a mask of zeros became NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

_FLOAT32 = np.finfo(np.float32)
LEAST = 2.0**12
"""A product of scale and constant counts from here on: half its last place is 0.0002, of results mostly about 1."""
SUMS, PRODUCTS = ("Add", "Subtract"), ("Divide", "Multiply")
KINDS = (*SUMS, *PRODUCTS)
"""Operations that OpenVINO joins with the operation ahead of them where both have a constant operand."""


def keep_apart(operation: Any) -> bool:
    """Keeps an operation's constant from being joined with that of the operation ahead of it.

    Args:
        operation: One of :data:`KINDS` of an ``openvino.Model``.

    Returns:
        Whether something was put between the two.
    """
    from openvino import opset13

    places = [place for place in (_amplified_input(operation), _overflowing_input(operation)) if place is not None]
    if not places:
        return False
    between = operation.input_value(places[0])
    operation.input(places[0]).replace_source_output(opset13.maximum(between, between).output(0))
    return True


def is_amplified_by(reader: Any) -> bool:
    """Whether a reader's constant would be joined with that of a sum, so that last places are lost in its result."""
    return _amplified_input(reader) is not None


def _amplified_input(operation: Any) -> int | None:
    """Returns the index of an input that is a sum whose joined constant would be :data:`LEAST` or more, or None."""
    for place, joined, constant in _joined(operation, SUMS):
        scale = 1.0 if operation.get_type_name() in SUMS else np.abs(joined).max()
        return place if scale * np.abs(constant).max() >= LEAST else None
    return None


def _overflowing_input(operation: Any) -> int | None:
    """Returns the index of a product's input that is a product, if their joined constant leaves float32; else None."""
    if operation.get_type_name() in PRODUCTS:
        for place, joined, constant in _joined(operation, PRODUCTS):
            factors = [numbers[numbers != 0] for numbers in (np.abs(joined), np.abs(constant))]
            if not all(numbers.size and np.isfinite(numbers).all() for numbers in factors):
                return None
            (low, high), (least, greatest) = ((numbers.min(), numbers.max()) for numbers in factors)
            return place if high * greatest > _FLOAT32.max or low * least < _FLOAT32.tiny else None
    return None


def _joined(operation: Any, kinds: Sequence[str]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yields each input from an operation that has a constant like this one: its index, and the constants of both."""
    kind = operation.get_type_name()
    if kind not in KINDS or operation.get_element_type().get_type_name() != "f32":
        return
    for place, other in ((0, 1),) if kind == "Divide" else ((0, 1), (1, 0)):
        ahead = operation.input_value(place).get_node()
        joined = _term(operation, other)
        if joined is None or ahead.get_type_name() not in kinds:
            continue
        places = (1,) if ahead.get_type_name() == "Divide" else (0, 1)
        constant = next((numbers for at in places if (numbers := _term(ahead, at)) is not None), None)
        if constant is not None:
            yield place, joined, constant


def _term(operation: Any, place: int) -> np.ndarray | None:
    """Returns the constant that an operation adds or multiplies by (the reciprocal of a divisor), or None."""
    numbers = _numbers(operation, place)
    if numbers is None or operation.get_type_name() != "Divide":
        return numbers
    with np.errstate(divide="ignore"):
        return np.asarray(1 / numbers)


def _numbers(operation: Any, place: int) -> np.ndarray | None:
    """The numbers of an input; None where it is no constant, or empty."""
    node = operation.input_value(place).get_node()
    if node.get_type_name() != "Constant":
        return None
    numbers = np.asarray(node.get_data(), np.float64)
    return numbers if numbers.size else None
