"""Small differences from a large constant: those of years, of columns that hardly vary, of masks of attention.

``(x - c) * s`` is near what the standard gives where ``x`` is near ``c``. OpenVINO (2026.4, ``AddMultiplyFusion``)
makes ``x * s - c * s`` of it, both terms of which are rounded in the last place of ``c * s``. Of ``(x + c) + d`` its
``AddAddFusion`` makes ``x + (c + d)``. So the relative positions ``d`` of T5 in ``(1 - mask) * -3.4e38 + d`` were lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LEAST = 2.0**12
"""A product of scale and constant that counts: half of its last place is 0.0002, of results that are mostly about 1."""
KINDS = ("Add", "Divide", "Multiply", "Subtract")
"""What is joined with the difference ahead of it where its other operand is a constant."""


def keep_difference(operation: Any) -> bool:
    """Keeps a constant from being joined with the one in the difference that it scales, or is added to.

    Args:
        operation: One of :data:`KINDS` of an ``openvino.Model``.

    Returns:
        Whether something was put between the two.
    """
    from openvino import opset13

    place = _amplified_input(operation)
    if place is None:
        return False
    difference = operation.input_value(place)
    operation.input(place).replace_source_output(opset13.maximum(difference, difference).output(0))
    return True


def is_amplified_by(reader: Any) -> bool:
    """Whether the last places of both terms of a difference from a constant are told from the reader's result."""
    return _amplified_input(reader) is not None


def _amplified_input(operation: Any) -> int | None:
    """Which input is such a difference."""
    kind = operation.get_type_name()
    if kind not in KINDS or operation.get_element_type().get_type_name() != "f32":
        return None
    for place, other in ((0, 1),) if kind == "Divide" else ((0, 1), (1, 0)):
        joined, constant = _numbers(operation, other), _constant_of(operation.input_value(place).get_node())
        if joined is not None and constant is not None:
            return place if _scale(kind, joined) * np.abs(constant).max() >= LEAST else None
    return None


def _scale(kind: str, joined: np.ndarray) -> float:
    """What the constant of a difference is multiplied with."""
    if kind in ("Add", "Subtract"):
        return 1.0
    with np.errstate(divide="ignore"):
        return float(np.abs(1 / joined if kind == "Divide" else joined).max())


def _constant_of(difference: Any) -> np.ndarray | None:
    """The constant of a sum or difference; None of anything else."""
    if difference.get_type_name() not in ("Add", "Subtract"):
        return None
    return next((numbers for place in (0, 1) if (numbers := _numbers(difference, place)) is not None), None)


def _numbers(operation: Any, place: int) -> np.ndarray | None:
    """The numbers of an input; None where it is no constant, or empty."""
    node = operation.input_value(place).get_node()
    if node.get_type_name() != "Constant":
        return None
    numbers = np.asarray(node.get_data(), np.float64)
    return numbers if numbers.size else None
