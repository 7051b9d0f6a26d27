"""Weights that are stored as integers where OpenVINO's CPU plugin cannot load them."""

from __future__ import annotations

from math import prod
from typing import Any

from edgekit_openvino.cores import new_core

WIDENING = ("Convert", "Multiply", "Subtract", "Reshape")
"""Operations between integers as they are stored and the float weights that they stand for."""


def widen_where_not_loadable(network: Any) -> list[str]:
    """Stores weights as floats, in place, where the plugin stumbles over integers.

    The plugin makes matrix products of 1×1 convolutions with stored weights, and asks for the only output of what gives
    their input (``ConvertWeightCompressedConv1x1ToMatmul``, OpenVINO 2025.3 to 2026.4). A Split, a TopK and others have
    several; then the whole model does not compile: "Default output not supported".

    Args:
        network: The ``openvino.Model``.

    Returns:
        The convolutions whose weights are floats now, by name.
    """
    found = [operation for operation in network.get_ordered_ops() if _stumbles(operation)]
    for operation in found:
        weights = operation.input_value(1)
        operation.input(1).replace_source_output(computed_constant(weights).output(0))
    return [operation.get_friendly_name() for operation in found]


def _stumbles(operation: Any) -> bool:
    if operation.get_type_name() != "Convolution" or len(operation.input_value(0).get_node().outputs()) == 1:
        return False
    weights = operation.input_value(1)
    if not weights.get_partial_shape().is_static or prod(list(weights.get_shape())[2:]) != 1:
        return False
    source = weights.get_node()
    while source.get_type_name() in WIDENING:
        source = source.input_value(0).get_node()
    return source.get_type_name() == "Constant" and bool(source.get_element_type().is_integral())


def computed_constant(value: Any) -> Any:
    """Returns the value of an output that depends on constants alone, as a constant with the name of its operation."""
    import openvino
    from openvino import opset13

    part = openvino.Model([opset13.result(value)], [], "weights")
    (computed,) = new_core().compile_model(part, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({}).values()
    made = opset13.constant(computed)
    made.set_friendly_name(value.get_node().get_friendly_name())
    return made
