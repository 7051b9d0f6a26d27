"""Unique: OpenVINO's CPU plugin computes it right along the first axis of a tensor, but wrong in some other cases.

Over all elements without sorting, the plugin leaves results unwritten where nothing reads the elements' places among
the distinct ones; along another axis it reports equal parts as distinct (seen in OpenVINO 2026.4.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import hand_over

_AXIS = 1
"""The index of the input that is the axis; without this input all elements are compared."""


def keep_distinct(unique: Any) -> None:
    """Replaces a Unique that the plugin computes wrong by one along the first axis; names stay."""
    from openvino import opset13

    value = unique.input_value(0)
    if unique.get_input_size() == _AXIS:
        if not unique.get_attributes()["sorted"]:
            column, flat = (opset13.constant(np.array(sizes, np.int64)) for sizes in ([-1, 1], [-1]))
            found = _along_first_axis(unique, opset13.reshape(value, column, special_zero=False))
            _put_in_place_of(unique, found, opset13.reshape(found.output(0), flat, special_zero=False))
        return
    axis, rank = unique.input_value(_AXIS).get_node(), value.get_partial_shape().rank
    if axis.get_type_name() != "Constant" or rank.is_dynamic:
        return
    place, others = int(axis.get_data().item()) % rank.get_length(), list(range(rank.get_length()))
    if place == 0:
        return
    others.remove(place)
    ahead = [place, *others]
    found = _along_first_axis(unique, opset13.transpose(value, opset13.constant(np.array(ahead, np.int64))))
    back = opset13.constant(np.argsort(ahead).astype(np.int64))
    _put_in_place_of(unique, found, opset13.transpose(found.output(0), back))


def _along_first_axis(unique: Any, value: Any) -> Any:
    from openvino import opset13

    attributes = unique.get_attributes()
    return opset13.unique(
        value,
        opset13.constant(np.array(0, np.int64)),
        sorted=attributes["sorted"],
        index_element_type=attributes["index_element_type"],
        count_element_type=attributes["count_element_type"],
    )


def _put_in_place_of(unique: Any, found: Any, parts: Any) -> None:
    """Redirects readers of ``unique`` to ``parts``, the distinct parts, and to the further outputs of ``found``."""
    for old, new in zip(unique.outputs(), [parts.output(0), *found.outputs()[1:]], strict=True):
        hand_over(old, new)
    found.set_friendly_name(unique.get_friendly_name())
