"""Convolutions along the height of tensors of width 1: along the width they take at most half the time.

OpenVINO's CPU plugin (2026.4) blocks a convolution over its output's width, which is 1 then. With a stride of 1 it
finds a way around this; with larger strides it takes twice as long (a kernel of 3, a stride of 2), and 8 times as
long for the first layer of CREPE (a kernel of 512, a stride of 4). Both forms give the same numbers.
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.networks import operations_of

_LAID_DOWN = (0, 0, 1, -1)
"""The shape with the height as the width; 0 is a size that stays."""
_UPRIGHT = (0, 0, -1, 1)
_AXES = 4


def lay_down_convolutions(network: Any) -> int:
    """Swaps height and width of upright convolutions, and back behind them, in place; values keep names and shapes.

    Those that multiply integers stay unchanged: the plugin recognizes them by the operation directly ahead of them.

    Args:
        network: The ``openvino.Model``.

    Returns:
        The number of convolutions that were changed.
    """
    upright = [convolution for convolution in operations_of(network, "Convolution") if _is_upright(convolution)]
    for convolution in upright:
        _lay_down(convolution)
    if upright:
        network.validate_nodes_and_infer_types()
    return len(upright)


def _is_upright(convolution: Any) -> bool:
    """Whether it has a stride of 2 or more along the height of a tensor of width 1, and computes in floats."""
    data, weights = convolution.input_value(0), convolution.input_value(1)
    sizes = data.get_partial_shape()
    if not sizes.rank.is_static or len(sizes) != _AXES or sizes[3] != 1 or weights.get_partial_shape().is_dynamic:
        return False
    attributes = convolution.get_attributes()
    steps, ahead, behind = (attributes[name] for name in ("strides", "pads_begin", "pads_end"))
    return bool(
        steps[0] > 1
        and weights.get_shape()[3] == 1
        and ahead[1] == behind[1] == 0
        and attributes["auto_pad"] in ("explicit", "valid")
        and not _is_of_integers(data)
    )


def _is_of_integers(value: Any) -> bool:
    """Whether a value comes from a Convert or a FakeQuantize, scaled or not."""
    operation = value.get_node()
    while operation.get_type_name() in ("Multiply", "Subtract"):
        operation = operation.input_value(0).get_node()
    return operation.get_type_name() in ("Convert", "FakeQuantize")


def _lay_down(convolution: Any) -> None:
    import numpy as np
    from openvino import opset13

    def shaped(value: Any, sizes: tuple[int, ...]) -> Any:
        return opset13.reshape(value, opset13.constant(np.array(sizes, np.int64)), True)

    data, weights, attributes = convolution.input_value(0), convolution.input_value(1), convolution.get_attributes()
    steps, ahead, behind, spread = (
        [0 if name.startswith("pads") else 1, attributes[name][0]]
        for name in ("strides", "pads_begin", "pads_end", "dilations")
    )
    laid_down = opset13.convolution(
        shaped(data, _LAID_DOWN), shaped(weights, _LAID_DOWN), steps, ahead, behind, spread, attributes["auto_pad"]
    )
    old, name = convolution.output(0), convolution.get_friendly_name()
    upright = shaped(laid_down, _UPRIGHT)
    names = old.get_tensor().get_names()
    old.get_tensor().set_names(set())
    convolution.set_friendly_name(f"{name}/replaced")
    laid_down.set_friendly_name(f"{name}/laid down")
    upright.set_friendly_name(name)
    for reader in old.get_target_inputs():
        reader.replace_source_output(upright.output(0))
    upright.output(0).get_tensor().set_names(names)
