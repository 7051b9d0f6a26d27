"""Turns biases of 32-bit integers into the floats that they stand for, before a network is written.

A quantized ONNX model stores them as integers with a scale each, since ONNX Runtime adds them to sums of integers.
OpenVINO widens and scales them each time it loads a network: three operations and as many bytes again in a file, for
the same floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def fold_biases(network: Any) -> None:
    """Folds 32-bit integer constants that are widened to float32 and scaled into floats, in an ``openvino.Model``.

    Constants whose scale has more elements stay unchanged: the result would take more room.
    """
    from openvino import opset13

    for operation in network.get_ordered_ops():
        if operation.get_type_name() != "Multiply" or operation.get_output_element_type(0).get_type_name() != "f32":
            continue
        readers = operation.output(0).get_target_inputs()
        if any(reader.get_node().get_type_name() == "Result" for reader in readers):
            continue  # the output has its name from here
        factors = [_widened(value) for value in operation.input_values()]
        scales = [_constant(value, "f32") for value in operation.input_values()]
        for integers, scale in zip(factors, reversed(scales), strict=True):
            if integers is not None and scale is not None:
                product = integers.astype(np.float32) * scale
                if product.size == integers.size:
                    constant = opset13.constant(product)
                    constant.set_friendly_name(operation.get_friendly_name())
                    for reader in readers:
                        reader.replace_source_output(constant.output(0))


def _widened(value: Any) -> np.ndarray | None:
    """Returns the integers of an int32 constant that a Convert widens, or None for other values."""
    converts = value.get_node().get_type_name() == "Convert"
    return _constant(value.get_node().input_value(0), "i32") if converts else None


def _constant(value: Any, element_type: str) -> np.ndarray | None:
    node = value.get_node()
    known = node.get_type_name() == "Constant" and value.get_element_type().get_type_name() == element_type
    return np.array(node.get_data()) if known else None
