"""Weights stored as integers that OpenVINO's CPU plugin cannot load, or with which it computes something else."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from edgekit_openvino.cores import new_core

WIDENING = ("Convert", "Multiply", "Subtract", "Reshape")
"""Operations between integers as they are stored and the float weights that they stand for."""
CHANNELS_FIRST = [0, 3, 1, 2]
CHANNELS_LAST = [0, 2, 3, 1]
"""The two transposes that the plugin assumes next to a convolution, whatever their order is."""
MERGED = ("Transpose", "Reshape", "Squeeze", "Unsqueeze")
"""Operations next to a convolution that the plugin merges into the product."""
BETWEEN = ("Add", "Convert")
"""Operations that may stand between a convolution and one of :data:`MERGED`."""


def widen_where_not_loadable(network: Any) -> list[str]:
    """Stores weights as floats, in place, where the plugin stumbles over integers.

    The plugin makes matrix products of 1×1 convolutions with stored weights
    (``ConvertWeightCompressedConv1x1ToMatmul``, OpenVINO 2025.3 to 2026.4). It expects a single output of the operation
    that gives their input: a Split, a TopK and others have several, and the whole model does not compile ("Default
    output not supported"). Next to a transpose or a reshape it drops strides and pads, and it assumes that every
    transpose moves the channels between the second and the last axis: shapes or, if sizes are equal, numbers are wrong.

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
    if operation.get_type_name() != "Convolution":
        return False
    weights = operation.input_value(1)
    if not weights.get_partial_shape().is_static or prod(list(weights.get_shape())[2:]) != 1:
        return False
    source = weights.get_node()
    while source.get_type_name() in WIDENING:
        source = source.input_value(0).get_node()
    if source.get_type_name() != "Constant" or not source.get_element_type().is_integral():
        return False
    given, readers = operation.input_value(0).get_node(), [*_readers(operation)]
    return (
        len(given.outputs()) != 1
        or _reorders(given, CHANNELS_FIRST)
        or any(_reorders(reader, CHANNELS_LAST) for reader in readers)
        or (_moves(operation) and any(each.get_type_name() in MERGED for each in (given, *readers)))
    )


def _moves(convolution: Any) -> bool:
    """Whether a convolution has strides or pads."""
    attributes = convolution.get_attributes()
    return any(step != 1 for step in attributes["strides"]) or any(
        pad != 0 for side in ("pads_begin", "pads_end") for pad in attributes[side]
    )


def _reorders(operation: Any, expected: list[int]) -> bool:
    """Whether an operation is a transpose in another order than the expected one, or in a computed one."""
    if operation.get_type_name() != "Transpose":
        return False
    order = operation.input_value(1).get_node()
    return order.get_type_name() != "Constant" or list(order.get_data()) != expected


def _readers(operation: Any) -> Iterator[Any]:
    """Yields the operations that read an operation's result, directly or after the addition of a bias."""
    for output in operation.outputs():
        for reader in output.get_target_inputs():
            node = reader.get_node()
            yield node
            if node.get_type_name() in BETWEEN:
                yield from _readers(node)


def computed_constant(value: Any) -> Any:
    """Returns the value of an output that depends on constants alone, as a constant with the name of its operation."""
    import openvino
    from openvino import opset13

    part = openvino.Model([opset13.result(value)], [], "weights")
    (computed,) = new_core().compile_model(part, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({}).values()
    made = opset13.constant(computed)
    made.set_friendly_name(value.get_node().get_friendly_name())
    return made
