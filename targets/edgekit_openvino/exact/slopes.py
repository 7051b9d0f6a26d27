"""Slopes of PRelu that OpenVINO 2026.4 takes along another axis than ONNX.

OpenVINO applies a list of slopes along the second axis if their lengths are equal, whatever the last axis's length;
ONNX applies it along the last. A matrix product that the plugin fuses with the PRelu applies slopes of the second of
three or more axes along the last: wrong numbers if both axes have the same length, a refusal to load if not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import put_in_place_of
from edgekit_openvino.loadable.matrix_chains import JOINS, PRODUCT, UNARY

KIND = "PRelu"
CHANNELS = 1
"""The axis that slopes of convolutional networks stand along."""
LEAST_AXES = 3
"""The least number of axes of which the second is not the last."""
NEW_SLOPES = 7
"""From this version of the standard operators on, slopes broadcast as in NumPy; before, a list was one per channel."""


def keep_slopes(prelu: Any, opset: int) -> bool:
    """Puts the slopes of a PRelu where ONNX has them, in place; values keep their names.

    Args:
        prelu: The operation.
        opset: The version of the standard operators that the ONNX model imports.

    Returns:
        Whether the operation was changed.
    """
    rank, slopes = prelu.get_input_partial_shape(0).rank, prelu.get_input_partial_shape(1)
    if rank.is_dynamic or rank.get_length() < LEAST_AXES or slopes.is_dynamic:
        return False
    rank, sizes = rank.get_length(), [size.get_length() for size in slopes]
    if len(sizes) == 1 and sizes != [1] and opset >= NEW_SLOPES:
        _stand_along_the_last(prelu, rank)
        return True
    along = [place - len(sizes) + rank for place, size in enumerate(sizes) if size != 1]
    if along == [CHANNELS] and _ends_a_product(prelu):
        _written_out(prelu)
        return True
    return False


def _stand_along_the_last(prelu: Any, rank: int) -> None:
    from openvino import opset13

    axes = opset13.constant(np.arange(rank - 1))
    prelu.input(1).replace_source_output(opset13.unsqueeze(prelu.input_value(1), axes).output(0))
    prelu.constructor_validate_and_infer_types()


def _written_out(prelu: Any) -> None:
    """Replaces a PRelu by a choice, which the plugin does not fuse with the layer before."""
    from openvino import opset13

    value, slopes = prelu.input_value(0), prelu.input_value(1)
    zero = opset13.convert_like(opset13.constant(np.float32(0)), value)
    put_in_place_of(prelu, opset13.select(opset13.less(value, zero), opset13.multiply(value, slopes), value))


def _ends_a_product(operation: Any) -> bool:
    """Whether the input comes from a matrix product, directly or through elementwise operations."""
    waiting, seen = [operation.input_value(0).get_node()], set()
    while waiting:
        node = waiting.pop()
        kind, name = node.get_type_name(), node.get_name()
        if kind == PRODUCT:
            return True
        if kind in JOINS | UNARY and name not in seen:
            seen.add(name)
            waiting += [node.input_value(place).get_node() for place in range(node.get_input_size())]
    return False
