"""Numbers that OpenVINO pads quantized tensors with, as they are given.

Its low-precision transformations (2026.4) move a padding ahead of what makes real numbers of integers, and make an
integer of the number that is padded with: 0.5 becomes 0, and an infinite number keeps the network from loading. Zero
is right, the zero point where there is one, except along channels of which there is one: there it pads with the
integer 0. So the network pads with zero and chooses the number where it padded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import put_in_place_of

KIND = "Pad"
CHANNELS = 1


def choose_padding(padding: Any) -> bool:
    """Puts a padding with zero and a choice in the place of a padding with another number; names stay.

    Args:
        padding: A ``Pad`` of a network that is quantized.

    Returns:
        Whether it was replaced.
    """
    from openvino import opset13

    x, begins, ends, *numbers = padding.input_values()
    if padding.get_attributes()["pad_mode"] != "constant" or not x.get_element_type().is_real():
        return False
    zero = opset13.constant(np.array(0, x.get_element_type().to_dtype()))
    (number,) = numbers or [zero.output(0)]
    is_zero = number.get_node().get_type_name() == "Constant" and not np.any(number.get_node().get_data())
    if is_zero and not _may_add_to_one_channel(x.get_partial_shape(), begins, ends):
        return False
    inside = opset13.broadcast(opset13.constant(np.array(False)), opset13.shape_of(x))
    is_padded = opset13.pad(inside, begins, ends, "constant", opset13.constant(np.array(True)))
    padded = opset13.pad(x, begins, ends, "constant", zero)
    put_in_place_of(padding, opset13.select(is_padded, number, padded))
    return True


def _may_add_to_one_channel(shape: Any, *lengths: Any) -> bool:
    """Whether the second axis is padded and its size may be 1."""
    if shape.rank.is_dynamic:
        return True
    if len(shape) <= CHANNELS or (shape[CHANNELS].is_static and shape[CHANNELS].get_length() != 1):
        return False
    nodes = [length.get_node() for length in lengths]
    return any(node.get_type_name() != "Constant" or node.get_data().ravel()[CHANNELS] for node in nodes)
