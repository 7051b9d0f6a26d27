"""Writes an affine map per output channel into a layer's weights and bias."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph import Names, add_initializer, constant, integer
from edgekit_quantize.layers import Layer


def scale_output(graph: ir.Graph, layer: Layer, factor: np.ndarray, shift: np.ndarray, node: ir.Node) -> bool:
    """Make ``layer`` compute ``factor * output + shift`` and drop ``node``, which did so behind it.

    Args:
        graph: The graph, changed in place.
        layer: A Conv, ConvTranspose or Gemm.
        factor: One number a channel, or one in all.
        shift: The same.
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
    graph.remove(node, safe=True)
    return True


def can_rescale(layer: Layer) -> bool:
    """Whether the layer's own operator has a bias, and uses it plainly."""
    if layer.node.op_type == "MatMul":
        return False
    if layer.bias is not None and constant(layer.bias) is None:
        return False
    if layer.node.op_type == "Gemm":
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
    """Give the layer weights of its own."""
    dtype = layer.weights().dtype
    name = Names(graph).fresh(f"{layer.weight.name}_folded")
    layer.node.replace_input_with(layer.weight_index, add_initializer(graph, name, array.astype(dtype)))


def set_bias(graph: ir.Graph, layer: Layer, array: np.ndarray) -> None:
    """Give the layer a bias of its own."""
    name = Names(graph).fresh(f"{layer.weight.name}_bias")
    value = add_initializer(graph, name, array)
    if len(layer.node.inputs) < 3:
        layer.node.resize_inputs(3)
    layer.node.replace_input_with(2, value)
