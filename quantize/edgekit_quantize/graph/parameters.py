"""Writes an affine map per output channel into a layer's weights and bias."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import Names, add_initializer, constant, home, integer, is_standard, only_consumer

BIAS = 2
"""The index of the bias among the inputs of Conv, ConvTranspose and Gemm."""


def scale_output(graph: ir.Graph, layer: Layer, factor: np.ndarray, shift: np.ndarray, node: ir.Node) -> bool:
    """Make ``layer`` compute ``factor * output + shift``, and remove ``node``, which computed that behind the layer.

    Args:
        graph: The main graph, changed in place.
        layer: A Conv, ConvTranspose or Gemm.
        factor: One number per channel, or one for all channels.
        shift: One number per channel, or one for all channels.
        node: The node behind the layer, whose readers then read the layer.

    Returns:
        Whether it was possible.
    """
    if not can_rescale(layer):
        return False
    weights = layer.weights()
    channels = output_channels(layer)
    factor, shift = np.broadcast_to(factor, (channels,)), np.broadcast_to(shift, (channels,))
    bias = constant(layer.bias)
    old = np.zeros(channels) if bias is None else np.broadcast_to(bias.reshape(-1), (channels,)).astype(np.float64)
    set_weights(graph, layer, weights * _along(layer, weights, factor))
    set_bias(graph, layer, (old * factor + shift).astype(weights.dtype))
    layer.output.name, node.outputs[0].name = node.outputs[0].name, layer.output.name
    node.outputs[0].replace_all_uses_with(layer.output, replace_graph_outputs=True)
    home(node).remove(node, safe=True)
    return True


def scale_input(graph: ir.Graph, layer: Layer, factor: float, shift: float) -> None:
    """Change the weights and bias so that ``layer`` of ``input`` gives its former result of ``factor * input + shift``.

    With a shift, the layer must have a bias that can be changed (:func:`can_rescale`), and no padding.
    """
    weights = layer.weights().astype(np.float64)
    if shift:
        inner = tuple(i for i in range(weights.ndim) if i != layer.channel_axis)
        added = weights.sum(axis=inner) * shift
        bias = constant(layer.bias)
        old = np.zeros(added.shape) if bias is None else bias.reshape(-1).astype(np.float64)
        set_bias(graph, layer, (old + added).astype(layer.weights().dtype))
    if factor != 1:
        set_weights(graph, layer, weights * factor)


def can_rescale(layer: Layer) -> bool:
    """Whether the layer's operator takes a bias that is constant or absent, and adds it unscaled, per channel."""
    if layer.node.op_type == "MatMul":
        return False
    if layer.bias is not None and constant(layer.bias) is None:
        return False
    if layer.node.op_type == "Gemm":
        alpha = layer.node.attributes.get("alpha")
        if alpha is not None and alpha.as_float() != 1.0:
            return False
        beta = layer.node.attributes.get("beta")
        bias = constant(layer.bias)
        plain = bias is None or bias.ndim <= 1 or bias.shape[0] == 1
        return plain and (beta is None or beta.as_float() == 1.0)
    return True


def output_channels(layer: Layer) -> int:
    """How many output channels a layer has."""
    count = int(layer.weights().shape[layer.channel_axis])
    return count * integer(layer.node, "group", 1) if layer.node.op_type == "ConvTranspose" else count


def _along(layer: Layer, weights: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """``factor`` shaped so that it multiplies the weights' output channels."""
    if layer.node.op_type == "ConvTranspose":
        groups = integer(layer.node, "group", 1)
        wide = np.repeat(factor.reshape(groups, -1), weights.shape[0] // groups, axis=0)
        return wide.reshape(*wide.shape, *[1] * (weights.ndim - 2))
    shape = [1] * weights.ndim
    shape[layer.channel_axis] = -1
    return factor.reshape(shape)


def set_weights(graph: ir.Graph, layer: Layer, array: np.ndarray) -> None:
    """Give the layer these weights; other readers of the old weights, and outputs, keep the old ones."""
    _set_constant(graph, layer.node, layer.weight_index, array.astype(layer.weights().dtype), layer.weight.name or "")


def has_bias(layer: Layer) -> bool:
    """Whether :func:`add_to_bias` has a bias to add to, or room for one."""
    return can_rescale(layer) if layer.node.op_type != "MatMul" else _bias_behind(layer) is not None


def add_to_bias(graph: ir.Graph, layer: Layer, shift: np.ndarray, names: Names | None = None) -> bool:
    """Add ``shift``, one number per output channel, to the layer's bias, or to the Add behind a MatMul.

    Args:
        graph: The graph.
        layer: The layer.
        shift: What is added.
        names: Gives out names that the graph does not use yet; None to look for them in the whole graph.

    Returns:
        Whether there was a bias to add to, or room for one.
    """
    if layer.node.op_type != "MatMul":
        if not can_rescale(layer):
            return False
        bias = constant(layer.bias)
        old = np.zeros(len(shift)) if bias is None else np.broadcast_to(bias.reshape(-1), shift.shape)
        set_bias(graph, layer, (old + shift).astype(layer.weights().dtype), names)
        return True
    behind = _bias_behind(layer)
    if behind is None:
        return False
    add, index, bias = behind
    changed = (bias.reshape(-1) + shift).astype(bias.dtype).reshape(bias.shape)
    _set_constant(graph, add, index, changed, f"{layer.weight.name}_bias", names)
    return True


def _bias_behind(layer: Layer) -> tuple[ir.Node, int, np.ndarray] | None:
    """The Add behind a MatMul that adds one constant per output channel: the node, the input's index, the constants.

    None if there is no such Add.
    """
    reader = only_consumer(layer.output)
    if reader is None or not is_standard(reader, "Add"):
        return None
    index = 1 if reader.inputs[0] is layer.output else 0
    bias = constant(reader.inputs[index])
    channels = output_channels(layer)
    along = (channels,) if layer.data_index == 0 else (channels, 1)
    if bias is None or bias.size != channels or bias.shape[-len(along) :] not in ((), along):
        return None
    return reader, index, bias


def set_bias(graph: ir.Graph, layer: Layer, array: np.ndarray, names: Names | None = None) -> None:
    """Give the layer this bias; other readers of the old bias, and outputs, keep the old one."""
    if len(layer.node.inputs) <= BIAS:
        layer.node.resize_inputs(BIAS + 1)
    _set_constant(graph, layer.node, BIAS, array, f"{layer.weight.name}_bias", names)


def _set_constant(
    graph: ir.Graph, node: ir.Node, index: int, array: np.ndarray, wish: str, names: Names | None = None
) -> None:
    old = node.inputs[index]
    is_read_alone = old is not None and len(tuple(old.uses())) == 1 and not old.is_graph_output()
    if old is not None and is_read_alone and old.is_initializer() and not old.is_graph_input():
        tensor = ir.Tensor(array, name=old.name)
        old.const_value, old.shape, old.type = tensor, ir.Shape(array.shape), ir.TensorType(tensor.dtype)
        return
    node.replace_input_with(index, add_initializer(home(node), (names or Names(graph)).fresh(wish), array))
