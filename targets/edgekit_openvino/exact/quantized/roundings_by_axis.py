"""Quantization with a scale for each place along an axis other than that of the channels.

OpenVINO's CPU plugin (2026.4) fuses a rounding into the convolution before it, and applies the limits along the
channels, whatever their axis, if there are as many; ahead of other layers it does not load such a rounding. Written
out as ONNX defines it, the rounding is right everywhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import put_in_place_of

CHANNELS = 1
"""The axis that the plugin takes limits along."""


def write_out(rounding: Any, constants: Collection[str]) -> bool:
    """Replaces a rounding with limits along an axis other than the channels' by arithmetic; names stay.

    Args:
        rounding: The ``FakeQuantize``.
        constants: The names of the operations that depend on constants alone; weights are rounded before.

    Returns:
        Whether it was replaced.
    """
    from openvino import opset13

    x, *limits = rounding.input_values()
    nodes = [limit.get_node() for limit in limits]
    if x.get_node().get_name() in constants or any(node.get_type_name() != "Constant" for node in nodes):
        return False
    dtype = nodes[0].get_data().dtype
    arrays = [np.asarray(node.get_data(), np.float64) for node in nodes]
    rank = x.get_partial_shape().rank
    if rank.is_dynamic or not any(_stands_elsewhere(array.shape, rank.get_length()) for array in arrays):
        return False
    least, greatest, lowest, highest = arrays
    steps = rounding.get_attributes()["levels"] - 1
    scale, step = (greatest - least) / steps, (highest - lowest) / steps
    if not np.all(scale > 0):
        return False
    first = np.rint(least / scale)

    def floats(array: np.ndarray) -> Any:
        return opset13.constant(array.astype(dtype))

    whole = opset13.round(opset13.divide(x, floats(scale)), "half_to_even")
    kept = opset13.minimum(opset13.maximum(whole, floats(first)), floats(first + steps))
    moved = opset13.multiply(opset13.subtract(kept, floats(first)), floats(step))
    put_in_place_of(rounding, opset13.add(moved, floats(lowest)))
    return True


def _stands_elsewhere(shape: tuple[int, ...], rank: int) -> bool:
    return any(size != 1 and place - len(shape) + rank != CHANNELS for place, size in enumerate(shape))
