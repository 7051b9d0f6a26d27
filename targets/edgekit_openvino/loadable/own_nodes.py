"""ONNX operators that OpenVINO computes, but that its ONNX frontend does not know, or converts otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.quotients import rounded_once

MOST = np.float32(255)
"""The greatest integer of 8 bits."""


def core() -> Any:
    """Returns an ``openvino.Core`` whose ONNX frontend knows the operators of this module."""
    import openvino
    from openvino.frontend.onnx import ConversionExtension

    made = openvino.Core()
    made.add_extension(ConversionExtension("DeformConv", deformable_convolution))
    made.add_extension(ConversionExtension("DynamicQuantizeLinear", dynamic_quantization))
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


def dynamic_quantization(node: Any) -> list[Any]:
    """Converts ONNX's ``DynamicQuantizeLinear`` with a scale and a zero point that are rounded once.

    The frontend multiplies the range by 1/255, and the plugin (OpenVINO 2026.4) divides by the reciprocal: the zero
    point of a range from -a to a, 127.5 before it is rounded, is then off by one, and with it all integers. The
    elements' own quotients stay rounded twice, so that one halfway between two steps may be off by one. The scale of
    zeros alone is 1, as in ONNX Runtime.

    Args:
        node: The frontend's ``NodeContext``: float32 numbers.
    """
    from openvino import opset13

    x = node.get_input(0)
    zero, most = opset13.constant(np.float32(0)), opset13.constant(MOST)
    rank = opset13.squeeze(opset13.shape_of(opset13.shape_of(x)), opset13.constant(np.int64(0)))
    axes = opset13.range(opset13.constant(np.int64(0)), rank, opset13.constant(np.int64(1)), "i64")
    least = opset13.minimum(opset13.reduce_min(x, axes), zero)
    greatest = opset13.maximum(opset13.reduce_max(x, axes), zero)
    span = opset13.subtract(greatest, least)
    scale = opset13.select(opset13.equal(span, zero), opset13.constant(np.float32(1)), _quotient(span, most))
    zero_point = opset13.round(_quotient(opset13.negative(least), scale), "half_to_even")
    zero_point = opset13.clamp(zero_point, 0, float(MOST))
    steps = opset13.add(opset13.round(opset13.divide(x, scale), "half_to_even"), zero_point)
    quantized = opset13.convert(opset13.clamp(steps, 0, float(MOST)), "u8")
    return [quantized.output(0), scale.output(0), opset13.convert(zero_point, "u8").output(0)]


def _quotient(dividend: Any, divisor: Any) -> Any:
    from openvino import opset13

    return rounded_once(dividend.output(0), divisor.output(0), opset13.divide(dividend, divisor).output(0))


def _optional(node: Any, place: int) -> Any:
    """An input; None where it is left out."""
    if place >= node.get_input_size():
        return None
    value = node.get_input(place)
    return None if value.get_node().get_type_name() == "NullNode" else value
