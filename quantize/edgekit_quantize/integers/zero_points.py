"""Moves the zero point of an activation into the biases of the layers that read it.

A product of integers with a zero point is ``W (q - z) s = W q s - z s W 1``. The last term is a constant, one number
per output channel; Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference (CVPR 2018), section 2.3, compute it beforehand. Once it is part of the bias, the runtime sees an activation
whose zero point is 0, for which it has its fastest kernels. QuantizeLinear keeps the zero point, DequantizeLinear has
none.

Layers with padding are left out: they pad with 0, but the padding would have to be the zero point.
"""

from __future__ import annotations

import numpy as np

from edgekit_quantize.graph.layers import Layer, is_padded
from edgekit_quantize.graph.parameters import has_bias
from edgekit_quantize.integers.qparams import QParams


def takes_shift(layer: Layer) -> bool:
    """Whether a constant added to the layer's whole input can be compensated in its bias."""
    if is_padded(layer) or not has_bias(layer) or layer.kind == "ConvTranspose":
        return False
    plain = layer.kind in {"Conv", "DepthwiseConv"} or layer.weights().ndim == 2
    return plain and layer.data_index == 0 and layer.input_axis != 0


def shift_of(params: QParams) -> float:
    """The constant that is added to an activation if DequantizeLinear does not subtract the zero point."""
    return float(params.zero_point) * float(params.scale)


def taken_off(layer: Layer, rounded: np.ndarray, shift: float) -> np.ndarray:
    """The correction to add to the layer's bias if ``shift`` is added to its input, one entry per output channel.

    Args:
        layer: A layer for which :func:`takes_shift` is True.
        rounded: The layer's dequantized weights, in the weights' shape.
        shift: The constant.
    """
    inner = tuple(i for i in range(rounded.ndim) if i != layer.channel_axis)
    return -shift * np.asarray(rounded.sum(axis=inner, dtype=np.float64))
