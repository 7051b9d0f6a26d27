"""Cross-layer equalization: equalizes the ranges of weights between successive layers.

Nagel et al., Data-Free Quantization through Weight Equalization and Bias Correction (ICCV 2019), section 4.1. If
``f(s x) = s f(x)`` for positive ``s``, as for ReLU, two layers compute the same when every channel between them is
divided by ``s_i`` in the first and multiplied by ``s_i`` in the second. With ``s_i = sqrt(r1_i / r2_i)`` (equation 11),
the ranges ``r1`` and ``r2`` of a channel's weights in both layers become equal, and no channel is much narrower than
the others. This matters if weights have one scale per tensor, or if activations between the layers are quantized.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.layers import Layer, layer_of, layers
from edgekit_quantize.graph.nodes import constant, integer, is_standard, only_consumer
from edgekit_quantize.graph.parameters import can_rescale, output_channels, set_bias, set_weights

HOMOGENEOUS = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool")
"""Operators that commute with a positive factor."""
SWEEPS = 20
"""The maximum number of passes over the graph."""
SETTLED = 1e-3
"""Passes over the graph end when every factor differs from 1 by less than this."""
FARTHEST = 1e4
"""The limit of a channel's total factor, and the inverse of its lower limit."""


def equalize(graph: ir.Graph) -> int:
    """Equalize the weights of successive convolutions until they settle; returns the number of pairs.

    Args:
        graph: A prepared graph, changed in place: weights and biases only.
    """
    pairs = [(first, second) for first in layers(graph) if (second := _follower(first)) is not None]
    scaled: list[np.ndarray | float] = [1.0] * len(pairs)
    for _ in range(SWEEPS):
        farthest = 0.0
        for number, pair in enumerate(pairs):
            factor = _even_out(graph, *pair, scaled[number])
            scaled[number] = scaled[number] * factor
            farthest = max(farthest, float(np.abs(factor - 1).max()))
        if farthest < SETTLED:
            break
    return len(pairs)


def _follower(layer: Layer) -> Layer | None:
    """The only reader of the layer's output, behind :data:`HOMOGENEOUS` operators; None if it is no convolution."""
    if layer.kind not in {"Conv", "DepthwiseConv"} or not can_rescale(layer):
        return None
    value = layer.output
    while (node := only_consumer(value)) is not None and is_standard(node, *HOMOGENEOUS):
        value = node.outputs[0]
    found = layer_of(node) if node is not None else None
    if found is None or found.kind not in {"Conv", "DepthwiseConv"} or found.data is not value:
        return None
    groups = integer(found.node, "group", 1)
    return found if groups in {1, output_channels(layer)} else None


def _even_out(graph: ir.Graph, first: Layer, second: Layer, before_now: np.ndarray | float) -> np.ndarray:
    """Equalize one pair whose channels were scaled by ``before_now`` in earlier passes; returns the new factors."""
    before, behind = first.weights().astype(np.float64), second.weights().astype(np.float64)
    out = np.abs(before).reshape(len(before), -1).max(1)
    channels = len(out)
    depthwise = integer(second.node, "group", 1) == channels > 1
    by_input = behind.reshape(channels, -1) if depthwise else np.moveaxis(behind, 1, 0).reshape(channels, -1)
    into = np.abs(by_input).max(1)
    factor = np.sqrt(np.divide(out, into, out=np.ones(channels), where=(out > 0) & (into > 0)))
    bounded = np.clip(before_now * factor, 1 / FARTHEST, FARTHEST)
    factor = np.where(bounded == before_now * factor, factor, bounded / before_now)
    set_weights(graph, first, before / factor.reshape(-1, *[1] * (before.ndim - 1)))
    bias = constant(first.bias)
    if bias is not None:
        set_bias(graph, first, (bias / factor).astype(bias.dtype))
    if depthwise:
        wide = np.repeat(factor, len(behind) // channels).reshape(-1, *[1] * (behind.ndim - 1))
    else:
        wide = factor.reshape(1, -1, *[1] * (behind.ndim - 2))
    set_weights(graph, second, behind * wide)
    return np.asarray(factor)
