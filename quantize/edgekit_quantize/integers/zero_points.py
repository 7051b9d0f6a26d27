"""Moves the zero point of an activation into the biases of the layers that read it.

A product of integers with a zero point is ``W (q - z) s = W q s - z s W 1``. The last term is a constant, one number an
output channel; Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference (CVPR 2018), section 2.3, compute it beforehand. Once it is part of the bias, the runtime sees an activation
whose zero point is 0, for which it has its fastest kernels. QuantizeLinear keeps the zero point, DequantizeLinear has
none.

The zeros that pad a convolution would have to be the zero point, so layers that pad are left out.
"""

from __future__ import annotations

import numpy as np

from edgekit_quantize.graph.layers import Layer, is_padded
from edgekit_quantize.graph.parameters import has_bias
from edgekit_quantize.integers.qparams import QParams


def takes_shift(layer: Layer) -> bool:
    """Whether a constant that is added to all of the layer's input can be taken off its bias."""
    if is_padded(layer) or not has_bias(layer) or layer.kind == "ConvTranspose":
        return False
    plain = layer.kind in {"Conv", "DepthwiseConv"} or layer.weights().ndim == 2
    return plain and layer.data_index == 0 and layer.input_axis != 0


def shift_of(params: QParams) -> float:
    """What an activation gains where DequantizeLinear takes off no zero point."""
    return float(params.zero_point) * float(params.scale)


def taken_off(layer: Layer, rounded: np.ndarray, shift: float) -> np.ndarray:
    """What to add to the layer's bias when its input has become larger by ``shift``, one entry an output channel.

    Args:
        layer: A layer that :func:`takes_shift`.
        rounded: What its quantized weights stand for, of their shape.
        shift: The constant.
    """
    inner = tuple(i for i in range(rounded.ndim) if i != layer.channel_axis)
    return -shift * np.asarray(rounded.sum(axis=inner, dtype=np.float64))
