"""A barrier that OpenVINO's passes move nothing across, and what the corrections ask of shapes."""

from __future__ import annotations

from typing import Any

ROUNDING = "FakeQuantize"
FIRST_PLACE = 2
"""The first axis after the batch and the channels."""
ARITHMETIC = frozenset({"Add", "Divide", "Multiply", "Subtract"})


def barrier(value: Any) -> Any:
    """Returns a choice between a value and itself: OpenVINO joins no operation ahead of it with one behind it."""
    from openvino import opset13

    return opset13.select(opset13.is_nan(value), value, value)


def has_several(shape: Any) -> bool:
    """Whether a partial shape may hold more than one number."""
    return bool(shape.rank.is_dynamic) or any(size.is_dynamic or size.get_length() != 1 for size in shape)


def may_be_one_place(shape: Any) -> bool:
    """Whether a partial shape has an open size, and all axes after the batch and the channels may have one element."""
    if shape.rank.is_dynamic:
        return True
    places = list(shape)[FIRST_PLACE:]
    return bool(not shape.is_static and places and all(size.is_dynamic or size.get_length() == 1 for size in places))
