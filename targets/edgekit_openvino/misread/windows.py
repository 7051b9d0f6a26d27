"""Convolutions, pools and other operators with windows that OpenVINO converts into something else."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.operators.departures import Departure, equal_channels, static_sizes
from edgekit_openvino.misread.conditions import mode_is

LANES = 16
"""Channels that the plugin's kernel for averages computes at a time on AVX-512; on AVX2 it computes 8."""
KEEPS_ELEMENTS = frozenset(
    {"Clip", "Concat", "Identity", "MaxPool", "Relu", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Operators behind which the plugin still computes in integers."""


def _has_a_fraction_in_its_bias(node: ir.Node, _: int) -> bool:
    return not node.attributes.get_float("bias", 1.0).is_integer()


def _rounds_sizes_up(node: ir.Node, _: int) -> bool:
    return node.attributes.get_int("ceil_mode", 0) == 1


def _counts_other_padding(node: ir.Node, _: int) -> bool:
    """Whether padding counts in an average, and a last window reaches beyond it, or a quantized tensor is padded.

    The plugin counts elements that do not exist, and in integers it pads with 0 instead of the zero point.
    """
    pads = node.attributes.get_ints("pads", ())
    if node.attributes.get_int("count_include_pad", 0) != 1 or not any(pads):
        return False
    return (_rounds_sizes_up(node, _) and _reaches_behind(node)) or _is_quantized(node.inputs[0])


def _reaches_behind(node: ir.Node) -> bool:
    """Whether the last window along some axis, where sizes are rounded up, reaches beyond the padding."""
    places = _last_windows(node)
    if places is None:
        return max(node.attributes.get_ints("strides", (1,))) > 1
    last, ends, reaches_on = places
    return bool(np.any(reaches_on & (last < ends)))  # one that begins behind is left out


def _counts_a_window_behind(node: ir.Node, _: int) -> bool:
    """Whether sizes are rounded up, and the last window along some axis would begin in the padding behind."""
    if not _rounds_sizes_up(node, _) or node.attributes.get_string("auto_pad", "NOTSET").startswith("SAME"):
        return False
    places = _last_windows(node)
    return places is not None and bool(np.any((places[0] > 0) & (places[0] >= places[1])))


def _last_windows(node: ir.Node) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Places of the last window along each axis if sizes are rounded up; None where sizes are open.

    Returns:
        Where the window begins, where the padding behind begins, and whether the window reaches beyond the padding;
        counted from the padding's beginning.
    """
    x, kernel = node.inputs[0], np.array(node.attributes["kernel_shape"].as_ints())
    sizes = [] if x is None or x.shape is None else list(x.shape)[2:]
    if not sizes or not all(isinstance(size, int) for size in sizes):
        return None
    ones = [1] * len(kernel)
    strides, dilations = (np.array(node.attributes.get_ints(name, ones)) for name in ("strides", "dilations"))
    before, behind = np.reshape(node.attributes.get_ints("pads", [0] * 2 * len(kernel)), (2, -1))
    ends = np.array(sizes) + before
    free = ends + behind - (kernel - 1) * dilations - 1
    return -(-free // strides) * strides, ends, free % strides != 0


def _is_quantized(value: ir.Value | None) -> bool:
    """Whether a tensor, or one that its elements come from, was quantized."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        producer = None if each is None else each.producer()
        if producer is not None and producer.op_type == "DequantizeLinear":
            return True
        if producer is not None and producer.op_type in KEEPS_ELEMENTS:
            waiting.extend(producer.inputs)
    return False


def _pads_an_output_shape_behind(node: ir.Node, _: int) -> bool:
    """Whether an output shape is given, and the larger part of the padding is at the end."""
    return "output_shape" in node.attributes and node.attributes.get_string("auto_pad", "NOTSET") == "SAME_UPPER"


def _cuts_groups_to_a_shape(node: ir.Node, _: int) -> bool:
    """Whether an output shape is given for channels in groups."""
    return "output_shape" in node.attributes and node.attributes.get_int("group", 1) > 1


def _pads_where_sizes_are_open(node: ir.Node, _: int) -> bool:
    """Whether the pads follow from a shape, and a size is open, even if only the batch's."""
    is_same = node.attributes.get_string("auto_pad", "NOTSET").startswith("SAME")
    return (is_same or "output_shape" in node.attributes) and static_sizes(node.inputs[0]) is None


def _averages_equal_channels(node: ir.Node, _: int) -> bool:
    """Whether equal channels are averaged whose number is no multiple of :data:`LANES`, the kernel's vector length."""
    return equal_channels(node.inputs[0]) % LANES > 0


MISREADINGS = (
    Departure(
        ("AveragePool",),
        _counts_other_padding,
        "it divides by a wrong number of elements, or pads with a wrong number",
    ),
    Departure(("ConvTranspose",), _pads_an_output_shape_behind, "it pads more at the beginning than at the end"),
    Departure(
        ("ConvTranspose",),
        _cuts_groups_to_a_shape,
        "with groups and an output shape, it cuts off elements at the end only",
    ),
    Departure(("ConvTranspose",), _pads_where_sizes_are_open, "it ignores the padding where a size is open"),
    Departure(
        ("GlobalAveragePool",), _averages_equal_channels, "it gives equal channels averages that differ by rounding"
    ),
    Departure(("LpPool",), _rounds_sizes_up, "it averages over fewer elements where sizes are rounded up"),
    Departure(("LRN",), _has_a_fraction_in_its_bias, "it cuts off the bias's fraction"),
    Departure(("MaxPool",), _counts_a_window_behind, "it has a window that begins in the padding behind"),
    Departure(("RoiAlign",), mode_is("max"), "it takes the greatest of other values"),
)
