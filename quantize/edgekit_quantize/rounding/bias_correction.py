"""Bias correction: subtracts the mean of a layer's quantization error from its bias.

Nagel et al., Data-Free Quantization through Weight Equalization and Bias Correction (ICCV 2019), section 4.2: the
expected error of an output is ``(W~ - W) E[x]``, which is subtracted from the bias. ``E[x]`` is measured on samples,
per input channel; the border of a padded convolution is treated like its inside.
"""

from __future__ import annotations

import numpy as np

from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import integer


def correction(layer: Layer, rounded: np.ndarray, mean: np.ndarray) -> np.ndarray | None:
    """The correction to add to the layer's bias, one entry per output channel.

    Args:
        layer: A Conv, Gemm or MatMul with two-dimensional weights.
        rounded: The layer's dequantized weights, in the weights' shape.
        mean: The mean of every input channel.

    Returns:
        None for layers whose expected error cannot be computed from the means of the input channels.
    """
    return through(layer, layer.weights() - rounded, mean)


def through(layer: Layer, error: np.ndarray, mean: np.ndarray) -> np.ndarray | None:
    """The layer's output for the mean of every input channel with ``error`` as its weights.

    None for the layers for which :func:`correction` returns None.
    """
    mean = mean.astype(error.dtype)
    if layer.kind in {"Conv", "DepthwiseConv"}:
        groups = integer(layer.node, "group", 1)
        summed = error.sum(axis=tuple(range(2, error.ndim)))  # [N, C / groups]
        blocks = summed.reshape(groups, -1, summed.shape[1])
        shift: np.ndarray = np.einsum("gnc,gc->gn", blocks, mean.reshape(groups, -1)).reshape(-1)
        return shift
    if layer.kind in {"MatMul", "Gemm"} and error.ndim == 2 and layer.data_index == 0:
        return np.asarray((error if layer.channel_axis == 0 else error.T) @ mean)
    return None
