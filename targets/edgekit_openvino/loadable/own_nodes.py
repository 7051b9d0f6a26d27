"""ONNX operators that OpenVINO computes, but that its ONNX frontend does not know."""

from __future__ import annotations

from typing import Any

import numpy as np


def core() -> Any:
    """Returns an ``openvino.Core`` whose ONNX frontend knows the operators of this module."""
    import openvino
    from openvino.frontend.onnx import ConversionExtension

    made = openvino.Core()
    made.add_extension(ConversionExtension("DeformConv", deformable_convolution))
    return made


def deformable_convolution(node: Any) -> list[Any]:
    """Converts ONNX's ``DeformConv``: interpolation takes samples outside the image as zeros, as everywhere in ONNX.

    Args:
        node: The frontend's ``NodeContext``: data [N, C, H, W], weights, offsets, and perhaps bias [outputs] and mask.
    """
    from openvino import opset8

    data, weights, offsets = (node.get_input(place) for place in range(3))
    bias, mask = (_optional(node, place) for place in (3, 4))
    pads = node.get_attribute("pads", [0, 0, 0, 0])
    result = opset8.deformable_convolution(
        data,
        offsets,
        weights,
        node.get_attribute("strides", [1, 1]),
        pads[:2],
        pads[2:],
        node.get_attribute("dilations", [1, 1]),
        mask=mask,
        auto_pad="explicit",
        group=node.get_attribute("group", 1),
        deformable_group=node.get_attribute("offset_group", 1),
        bilinear_interpolation_pad=True,
    )
    if bias is not None:
        result = opset8.add(result, opset8.reshape(bias, opset8.constant(np.array([1, -1, 1, 1])), False))
    return list(result.outputs())


def _optional(node: Any, place: int) -> Any:
    """An input; None where it is left out."""
    if place >= node.get_input_size():
        return None
    value = node.get_input(place)
    return None if value.get_node().get_type_name() == "NullNode" else value
