"""Follows an axis of a tensor through the nodes behind the tensor to an output.

Networks for pictures have their channels along the second axis, as a convolution's output has them; a network that was
exported from TensorFlow moves them to the last axis.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

FORMS = frozenset(
    {
        "Cast",
        "DequantizeLinear",
        "Flatten",
        "Identity",
        "QuantizeLinear",
        "Reshape",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)
"""Operators that pass on all numbers of their first input in another shape, layout or type."""
SIZES = frozenset({"Resize", "Upsample"})
"""Operators that give a map another height and width."""
BY_ELEMENT = frozenset({"Add", "Clip", "Div", "Mul", "Sub", "Tanh", "Where"})
"""Elementwise operators that scale or bound numbers."""
_IN_PLACE = (
    SIZES
    | BY_ELEMENT
    | {
        "BatchNormalization",
        "Concat",
        "Elu",
        "HardSigmoid",
        "HardSwish",
        "InstanceNormalization",
        "LeakyRelu",
        "PRelu",
        "Pad",
        "Relu",
        "Sigmoid",
        "Slice",
        "Softplus",
    }
)
"""Operators that leave every axis at its place."""
_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "QLinearConv"})
_CHANNELS = 1
"""The axis of the channels in a convolution's output."""


def is_computed(value: ir.Value | None) -> bool:
    """Whether a node other than a Constant computes the value."""
    node = None if value is None else value.producer()
    return node is not None and node.op_type != "Constant"


def channel_axis(output: ir.Value) -> int | None:
    """Returns the axis of an output that holds the channels of the convolution before it, or None if none is near.

    Only nodes of :data:`FORMS`, and nodes that leave axes at their places, may lie between the convolution and the
    output.

    Args:
        output: An output of a graph whose shapes are inferred.
    """
    way: list[ir.Node] = []
    value: ir.Value | None = output
    while value is not None and (node := value.producer()) is not None and not node.domain:
        if node.op_type in _CONVOLUTIONS:
            return axis_behind(node.outputs[0], _CHANNELS, way)
        if node.op_type not in FORMS | _IN_PLACE:
            return None
        way.append(node)
        handed_on = node.inputs[1:] if node.op_type == "Where" else node.inputs  # not the condition
        value = next(filter(is_computed, handed_on), None)
    return None


def axis_behind(value: ir.Value, axis: int, way: Sequence[ir.Node]) -> int | None:
    """Returns the axis of an output that an axis of a tensor has become, or None if that is not known.

    Args:
        value: The tensor.
        axis: The axis, counted from 0.
        way: The nodes from the tensor to the output, the last one first; each one is of :data:`FORMS`, or leaves axes
            at their places.
    """
    shape = value.shape
    for mover in reversed(way):
        before, after = shape, mover.outputs[0].shape
        if before is None or after is None:
            return None
        if mover.op_type == "Transpose":
            order = mover.attributes.get("perm")
            places = list(order.as_ints()) if order is not None else list(range(len(before)))[::-1]
            axis = places.index(axis)
        elif mover.op_type in _IN_PLACE:
            if len(before) != len(after):
                return None
        elif before != after:
            if axis == len(before) - 1 and after[-1] == before[axis]:
                axis = len(after) - 1
            elif list(after).count(before[axis]) == 1 and list(before).count(before[axis]) == 1:
                axis = list(after).index(before[axis])
            else:
                return None
        shape = after
    return axis
