"""Folds BatchNormalization into the layer before it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.layers import layer_of
from edgekit_quantize.graph.nodes import constant, integer, is_standard, only_consumer
from edgekit_quantize.graph.parameters import scale_output

EPSILON = 1e-5
"""The operator's default."""


def fold_batchnorm(graph: ir.Graph) -> int:
    """Fold every BatchNormalization that alone reads a layer's output into the layer; returns how many.

    ``y = (x - mean) / sqrt(var + epsilon) * gamma + beta`` is an affine map per channel, so it can be folded into the
    layer's weights and bias.
    """
    folded = 0
    for node in list(graph.all_nodes()):
        if not is_standard(node, "BatchNormalization") or integer(node, "training_mode", 0):
            continue
        source = node.inputs[0]
        producer = source.producer() if source is not None else None
        parameters = [constant(value) for value in node.inputs[1:5]]
        if source is None or producer is None or only_consumer(source) is not node or node.outputs[0].name is None:
            continue
        layer = layer_of(producer)
        gamma, beta, mean, variance = (None if p is None else p.astype(np.float64) for p in parameters)
        if layer is None or gamma is None or beta is None or mean is None or variance is None:
            continue
        epsilon = node.attributes["epsilon"].as_float() if "epsilon" in node.attributes else EPSILON
        factor = gamma / np.sqrt(variance + epsilon)
        if scale_output(graph, layer, factor, beta - mean * factor, node):
            folded += 1
    return folded
