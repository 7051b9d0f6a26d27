"""Products whose integer weights are the first factor, with a scale for each row, and that are rounded again.

OpenVINO (2026.4) moves the scales into the limits of the rounding, and its CPU plugin fuses the rounding into the
product. The fused product applies the limits along its columns: the network is not loaded or, if there are as many
columns as rows, every number is wrong. It happens where the rows are axis 1, which the plugin takes for the channels.
OpenVINO moves no scale past a choice.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from edgekit_openvino.exact.barriers import ROUNDING, barrier
from edgekit_openvino.exact.replacing import put_behind

KIND = "MatMul"
CHANNELS = 1
"""The axis that the plugin takes for the channels; that of a product's columns is taken right."""
WIDENING = frozenset({"Convert", "Multiply", "Subtract"})
"""Operations that turn stored integers into floats."""


def keep_scaled_rows(product: Any, constants: Collection[str]) -> None:
    """Puts a choice between a product with scales along the channels' axis and the rounding of its result.

    Args:
        product: A MatMul in a quantized network; names stay.
        constants: The names of the operations that depend on constants alone.
    """
    rank = product.get_output_partial_shape(0).rank
    if rank.is_static and rank.get_length() <= CHANNELS + 1:
        return
    attributes = product.get_attributes()
    for place, name in enumerate(("transpose_a", "transpose_b")):
        value = product.input_value(place)
        if value.get_node().get_name() not in constants:
            continue
        axes = scaled_axes(value, swapped=attributes[name])
        if any(rank.is_dynamic or axis + rank.get_length() == CHANNELS for axis in axes if axis < -1):
            if _is_rounded(product, constants):
                put_behind(product, barrier)
            return


def scaled_axes(weights: Any, *, swapped: bool) -> set[int]:
    """Returns the axes along which integer weights have several scales or zero points.

    Args:
        weights: A constant, or integers that :data:`WIDENING` turns into floats.
        swapped: Whether the product swaps the last two axes; they are then returned swapped.

    Returns:
        Axes counted from the end; none for weights that are stored as floats.
    """
    axes: set[int] = set()
    node = weights.get_node()
    while node.get_type_name() in WIDENING:
        for port in node.input_values()[1:]:
            sizes = port.get_shape()
            axes |= {place - len(sizes) for place, size in enumerate(sizes) if size != 1}
        node = node.input_value(0).get_node()
    if not node.get_element_type().is_integral():
        return set()
    return {-3 - axis if swapped and axis >= -2 else axis for axis in axes}


def _is_rounded(product: Any, constants: Collection[str]) -> bool:
    """Whether operations with one computed input each lead from a product to a rounding."""
    waiting = [product]
    while waiting:
        for reader in (port.get_node() for port in waiting.pop().output(0).get_target_inputs()):
            if reader.get_type_name() == ROUNDING:
                return True
            computed = [port for port in reader.input_values() if port.get_node().get_name() not in constants]
            if len(computed) == 1 and reader.get_output_size() == 1 and reader.get_type_name() != KIND:
                waiting.append(reader)
    return False
