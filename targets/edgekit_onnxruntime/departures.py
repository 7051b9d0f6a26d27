"""Nodes that ONNX Runtime loads, and then computes differently from the ONNX standard, or stops at.

They were found with the ONNX standard's own test cases on ONNX Runtime 1.27; tests verify that each entry still holds.
Bundles are not affected, as they are compared with ONNX Runtime itself; ``convert`` follows the standard.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.graph.nodes import constant_input, has_input
from edgekit.model import Model
from edgekit.operators.departures import (
    Departure,
    aligns_corners_by_broken_scales,
    static_sizes,
)
from edgekit.operators.departures import departing_nodes as kinds_in

LONGEST_TABLE = 128
"""Longer transforms are not replaced: the table of their coefficients would outweigh the gain."""
AXIS_IS_AN_INPUT = 20
"""From this version of the operator set on, DFT takes its axis as an input."""
PAST, MASK, KEY, SCORES = 4, 3, 1, 3
"""Indices of three of Attention's inputs, and of its output with the scores."""


def departing_nodes(model: Model) -> list[OpGap]:
    """The nodes that ONNX Runtime computes differently from the standard, in graph order.

    Args:
        model: A model whose shapes were inferred.
    """
    return kinds_in(model, DEPARTURES, "ONNX Runtime")


def refused_when_optimized(model: Model) -> list[OpGap]:
    """The nodes that ONNX Runtime supports, but refuses by default, because it rewrites the nodes around them."""
    return kinds_in(model, REFUSED_WHEN_OPTIMIZED, "ONNX Runtime, by default,")


def _resizes_behind_a_transposition(node: ir.Node, _: int) -> bool:
    """Whether a cubic resize of four dimensions reads a transposed tensor.

    ONNX Runtime moves the transposition behind the resize, and has no kernel that resizes two dimensions other than the
    last ones.
    """
    if node.attributes.get_string("mode", "nearest") != "cubic" or len(_sizes(node.inputs[0])) != len("NCHW"):
        return False
    value = node.inputs[0]
    while (producer := None if value is None else value.producer()) is not None and not producer.domain:
        if producer.op_type == "Transpose":
            return True
        if producer.op_type not in MOVED_THROUGH:
            return False
        value = producer.inputs[0]
    return False


def _sizes(value: ir.Value | None) -> list[int]:
    """The sizes of the value's dimensions; empty if one of them is not known."""
    sizes = static_sizes(value)
    return [] if sizes is None else [int(size) for size in sizes]


def _is_float_with_sign_of_divisor(node: ir.Node, _: int) -> bool:
    value = node.inputs[0]
    is_float = value is not None and value.dtype is not None and value.dtype.is_floating_point()
    return is_float and node.attributes.get_int("fmod", 0) == 0


def _is_nothing_of_booleans(node: ir.Node, _: int) -> bool:
    value = node.inputs[0]
    return value is not None and value.dtype == ir.DataType.BOOL and 0 in _sizes(value)


def _gives_masked_scores_behind_a_past(node: ir.Node, _: int) -> bool:
    is_causal = node.attributes.get_int("is_causal", 0) == 1
    return is_causal and has_input(node, MASK) and has_input(node, PAST) and len(node.outputs) > SCORES


def _has_a_short_mask(node: ir.Node, _: int) -> bool:
    """Whether a mask has fewer columns than there are keys, those of the past included."""
    if not has_input(node, MASK):
        return False
    mask, key = _sizes(node.inputs[MASK]), _sizes(node.inputs[KEY])
    past = _sizes(node.inputs[PAST]) if has_input(node, PAST) else []
    return bool(mask and key) and mask[-1] < key[-2] + (past[-2] if past else 0)


def _aligns_corners_by_broken_scales(node: ir.Node, _: int) -> bool:
    return aligns_corners_by_broken_scales(node, if_unknown=False)


def _has_an_output_shape(node: ir.Node, _: int) -> bool:
    return has_input(node, 2)


def _is_short_and_no_power_of_two(node: ir.Node, opset: int) -> bool:
    """Whether a DFT is computed by a longer transform, which loses digits, and is short enough to be replaced."""
    sizes, length = _sizes(node.inputs[0]), constant_input(node, 1)
    axis = constant_input(node, 2) if opset >= AXIS_IS_AN_INPUT else np.array(node.attributes.get_int("axis", 1))
    axis = np.array(-2) if axis is None and not has_input(node, 2) else axis
    if not sizes or axis is None or (length is None and has_input(node, 1)):
        return False
    count = sizes[int(axis.item())] if length is None else int(length.item())
    return count <= LONGEST_TABLE and count & (count - 1) != 0


MOVED_THROUGH = frozenset(
    {"Add", "Cast", "Clip", "Div", "Identity", "LeakyRelu", "Mul", "Pad", "Relu", "Resize", "Sigmoid", "Sub", "Tanh"}
)
"""Operators behind which ONNX Runtime moves a transposition."""
REFUSED_WHEN_OPTIMIZED = (
    Departure(("Resize",), _resizes_behind_a_transposition, "moves a Transpose behind it, and then refuses the result"),
)
DEPARTURES = (
    *REFUSED_WHEN_OPTIMIZED,
    Departure(("Attention",), _gives_masked_scores_behind_a_past, "gives wrong scores at masked positions"),
    Departure(("Attention",), _has_a_short_mask, "fails at a mask with fewer columns than keys"),
    Departure(("DFT",), _is_short_and_no_power_of_two, "computes it through a longer transform, which loses precision"),
    Departure(("MaxUnpool",), _has_an_output_shape, "reads its indices as positions in output_shape"),
    Departure(("Mod",), _is_float_with_sign_of_divisor, "fails for floating-point numbers without fmod"),
    Departure(("ReduceMax",), _is_nothing_of_booleans, "fails if there are no elements to reduce"),
    Departure(("Resize",), _aligns_corners_by_broken_scales, "aligns corners by the rounded size, not by the scale"),
)
