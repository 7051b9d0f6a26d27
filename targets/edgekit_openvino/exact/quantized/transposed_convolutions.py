"""Transposed convolutions of integers that OpenVINO's CPU plugin computes wrongly.

Its kernels (2026.4) ignore the zero point of weights: unsigned integers, which quantizers store around 128, all become
positive numbers. If the number of channels is no multiple of four and the kernel for AMX also rounds its output to
integers, the output is zero or one step off. A barrier keeps the rounding out of the kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from edgekit_openvino.exact.barriers import barrier
from edgekit_openvino.exact.replacing import hand_over, put_behind
from edgekit_openvino.loadable.stored_weights import WIDENING, computed_constant

KINDS = frozenset({"ConvolutionBackpropData", "GroupConvolutionBackpropData"})
WEIGHTS = 1
CHANNELS = 1
AT_ONCE = 4
"""Number of channels that the instructions of AMX process together."""
HALF = 128
"""Difference between unsigned and signed 8-bit integers."""


def keep_transposed_convolution(operation: Any, constants: Collection[str]) -> None:
    """Stores the weights around zero, and separates the rounding if the channels are no multiple of four; names stay.

    Args:
        operation: One of :data:`KINDS` in a quantized network.
        constants: The names of the operations that depend on constants alone.
    """
    weights = operation.input_value(WEIGHTS)
    if weights.get_node().get_name() in constants:
        moved = [_stores_around_zero(difference) for difference in _differences(weights.get_node())]
        if not all(moved):
            operation.input(WEIGHTS).replace_source_output(computed_constant(weights).output(0))
    shape = operation.get_input_partial_shape(0)
    if shape.rank.is_dynamic or shape[CHANNELS].is_dynamic or shape[CHANNELS].get_length() % AT_ONCE:
        put_behind(operation, barrier)


def _differences(node: Any) -> Iterator[Any]:
    """Yields the Subtract operations that subtract zero points between stored integers and weights."""
    while node.get_type_name() in WIDENING:
        if node.get_type_name() == "Subtract":
            yield node
        node = node.input_value(0).get_node()


def _stores_around_zero(difference: Any) -> bool:
    """Replaces unsigned integers with the zero point 128 by signed ones without one, in place; False for others."""
    from openvino import opset13

    stored, zero_point = (_widened(difference.input_value(place).get_node()) for place in (0, 1))
    if stored is None or zero_point is None or stored.get_element_type().get_type_name() != "u8":
        return False
    if np.any(np.asarray(zero_point.get_data(), np.float64) != HALF):
        return False
    signed = opset13.constant((stored.get_data().astype(np.int16) - HALF).astype(np.int8))
    signed.set_friendly_name(stored.get_friendly_name())
    widened = opset13.convert(signed, difference.get_output_element_type(0))
    hand_over(difference.output(0), widened.output(0))
    return True


def _widened(node: Any) -> Any | None:
    """The constant that an operation is, or that a Convert widens; None if it is neither."""
    source = node.input_value(0).get_node() if node.get_type_name() == "Convert" else node
    return source if source.get_type_name() == "Constant" else None
