"""Quantization that OpenVINO's FakeQuantize computes otherwise than ONNX, written out.

With a scale for each place along an axis other than that of the channels, the CPU plugin (2026.4) fuses the rounding
into the convolution before it, and applies the limits along the channels, whatever their axis, if there are as many;
ahead of other layers it does not load such a rounding.

The plugin rounds ``x / scale + zero_point``, half to even; ONNX rounds ``x / scale``. With an odd zero point the two
differ by one for all numbers halfway between two steps. In numbers that are made floats again this is as far from the
original, and the plugin fuses them with their layers; integers that are a result, or an index, have to be equal.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from edgekit_openvino.exact.quotients import rounded_once
from edgekit_openvino.exact.replacing import put_in_place_of

CHANNELS = 1
"""The axis that the plugin takes limits along."""


def write_out(rounding: Any, constants: Collection[str]) -> bool:
    """Replaces a rounding along an axis other than the channels', or one to integers, by arithmetic; names stay.

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
    makes_integers = dtype == np.float32 and _is_read_as_integers(rounding)
    stands_elsewhere = rank.is_static and any(_stands_elsewhere(array.shape, rank.get_length()) for array in arrays)
    if not makes_integers and not stands_elsewhere:
        return False
    least, greatest, lowest, highest = arrays
    steps = rounding.get_attributes()["levels"] - 1
    scale, step = _scale(least, greatest, steps), (highest - lowest) / steps
    if not np.all(scale > 0):
        return False
    first = np.rint(least / scale)

    def floats(array: np.ndarray) -> Any:
        return opset13.constant(array.astype(dtype))

    quotient = opset13.divide(x, floats(scale)).output(0)
    if makes_integers:
        quotient = rounded_once(x, floats(scale).output(0), quotient)
    whole = opset13.round(quotient, "half_to_even")
    kept = opset13.minimum(opset13.maximum(whole, floats(first)), floats(first + steps))
    moved = opset13.multiply(opset13.subtract(kept, floats(first)), floats(step))
    put_in_place_of(rounding, opset13.add(moved, floats(lowest)))
    return True


def _scale(least: np.ndarray, greatest: np.ndarray, steps: int) -> np.ndarray:
    """The scale of which float32 products with whole numbers are the limits; the nearest one where no scale fits."""
    nearest = (greatest - least) / steps
    first = np.rint(np.divide(least, nearest, where=nearest != 0, out=np.zeros_like(nearest * least)))
    start = found = nearest.astype(np.float32)
    for direction in (-np.inf, np.inf):
        other = np.nextafter(start, np.float32(direction))
        found = np.where(_fits(found, first, steps, least, greatest), found, other)
    return np.asarray(np.where(_fits(found, first, steps, least, greatest), found.astype(np.float64), nearest))


def _fits(scale: np.ndarray, first: np.ndarray, steps: int, least: np.ndarray, greatest: np.ndarray) -> np.ndarray:
    low, high = (scale * number.astype(np.float32) for number in (first, first + steps))
    return np.asarray((low == least) & (high == greatest))


def _is_read_as_integers(rounding: Any) -> bool:
    """Whether the only readers make integers of the rounded numbers, none of which is made a float again."""
    waiting = [port.get_node() for port in rounding.output(0).get_target_inputs()]
    if not waiting or any(reader.get_type_name() != "Convert" for reader in waiting):
        return False
    seen = set()
    while waiting:
        each = waiting.pop()
        if each.get_name() in seen or each.get_type_name() == "Result":
            continue
        seen.add(each.get_name())
        whole = [value for value in each.outputs() if value.get_element_type().is_integral()]
        if each.get_type_name() == "Convert" and not whole:
            return False
        waiting += [port.get_node() for value in whole for port in value.get_target_inputs()]
    return True


def _stands_elsewhere(shape: tuple[int, ...], rank: int) -> bool:
    return any(size != 1 and place - len(shape) + rank != CHANNELS for place, size in enumerate(shape))
