"""Small differences from a constant that are amplified, as those of years, or of columns that hardly vary.

``(x - c) * s`` is near what the standard gives where ``x`` is near ``c``. OpenVINO (2026.4, ``AddMultiplyFusion``)
makes ``x * s - c * s`` of it, both terms of which are rounded in the last place of ``c * s``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LEAST = 2.0**12
"""A product of scale and constant that counts: half of its last place is 0.0002, of results that are mostly about 1."""


def keep_difference(scaling: Any) -> bool:
    """Keeps a scale from being multiplied into the difference that it amplifies.

    Args:
        scaling: A ``Multiply`` or ``Divide`` of an ``openvino.Model``.

    Returns:
        Whether something was put between the two.
    """
    from openvino import opset13

    place = _amplified_input(scaling)
    if place is None:
        return False
    difference = scaling.input_value(place)
    scaling.input(place).replace_source_output(opset13.maximum(difference, difference).output(0))
    return True


def is_amplified_by(reader: Any) -> bool:
    """Whether it scales a difference from a constant up so that the last places of both are told from the result."""
    return _amplified_input(reader) is not None


def _amplified_input(scaling: Any) -> int | None:
    """Which input of a product is such a difference."""
    kind = scaling.get_type_name()
    if kind not in ("Multiply", "Divide") or scaling.get_element_type().get_type_name() != "f32":
        return None
    for place, other in ((0, 1), (1, 0)) if kind == "Multiply" else ((0, 1),):
        scale, constant = _numbers(scaling, other), _subtracted(scaling.input_value(place).get_node())
        if scale is not None and constant is not None:
            with np.errstate(divide="ignore"):
                greatest = np.abs(1 / scale if kind == "Divide" else scale).max()
            return place if greatest * np.abs(constant).max() >= LEAST else None
    return None


def _subtracted(difference: Any) -> np.ndarray | None:
    """The constant that is added to other numbers, or subtracted from them; None for what is no such difference."""
    kind = difference.get_type_name()
    places = {"Add": (0, 1), "Subtract": (1,)}.get(kind, ())
    return next((numbers for place in places if (numbers := _numbers(difference, place)) is not None), None)


def _numbers(operation: Any, place: int) -> np.ndarray | None:
    """The numbers of an input; None where it is no constant, or empty."""
    node = operation.input_value(place).get_node()
    if node.get_type_name() != "Constant":
        return None
    numbers = np.asarray(node.get_data(), np.float64)
    return numbers if numbers.size else None
