"""Moves the zero point of an activation into the biases of the layers that read it.

A product of integers with a zero point is ``W (q - z) s = W q s - z s W 1``. The last term is a constant, one number
per output channel; Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference (CVPR 2018), section 2.3, compute it beforehand. Once it is part of the bias, the runtime sees an activation
whose zero point is 0, for which it has its fastest kernels. QuantizeLinear keeps the zero point, DequantizeLinear has
none.

A convolution with padding pads with 0, but the padding would have to be the zero point: there the term depends on which
elements of the kernel meet the input. It is a map over the output's positions, which a runtime can add behind the
convolution. Without the map, OpenVINO computes it in each run: with AMX, a convolution of 39 elements along 219
positions takes 12 times as long with a zero point as without, and one of 3 elements 1.8 times; with the map, it takes
as long as without. On processors without AMX, forms with maps are 0.94 to 1.28 times as fast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.geometry import meets
from edgekit_quantize.graph.layers import Layer, is_padded
from edgekit_quantize.graph.parameters import has_bias
from edgekit_quantize.integers.qparams import QParams

POSITIONS = 2
"""The largest map behind a convolution, in positions for each multiplication of one output: reading a larger one takes
as long as the zero point. With AMX, forms with maps of up to 2 are 1.12 to 16 times as fast, those with maps of 11 and
more 0.84 to 1.06 times."""


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


def takes_map(layer: Layer) -> bool:
    """Whether a constant added to the input of a padded convolution can be compensated by a small map behind it."""
    if layer.kind != "Conv" or layer.data_index != 0 or not is_padded(layer) or layer.output.is_graph_output():
        return False
    size = _spatial_size(layer.data)
    if size is None or not (layer.bias is None or has_bias(layer)):
        return False
    weights = layer.weights()
    positions = math.prod(len(axis) for axis in meets(layer.node, size, weights.shape[2:]))
    return 0 < positions <= POSITIONS * weights.size // len(weights)


@dataclass(frozen=True)
class ShiftMap:
    """The correction behind a padded convolution, with equal slices stored once."""

    distinct: np.ndarray
    """``[1, N, ...]``, with only the distinct positions along each spatial axis."""
    places: list[np.ndarray]
    """For each spatial axis, the index in :attr:`distinct` of every position."""


def map_taken_off(layer: Layer, data: ir.Value, rounded: np.ndarray, shift: float) -> ShiftMap:
    """The correction to add behind a layer for which :func:`takes_map` is True, if ``shift`` is added to its input.

    Args:
        layer: The layer.
        data: Its input in the float model, whose shape is known.
        rounded: Its dequantized weights, in the weights' shape.
        shift: The constant.
    """
    size = _spatial_size(data)
    if size is None:
        raise ValueError(f"the size of {data.name!r} is not known")
    taken = rounded.sum(axis=1, dtype=np.float64)  # [N, *kernel]
    places = []
    for met in meets(layer.node, size, rounded.shape[2:]):
        _, first, of_position = np.unique(met, axis=0, return_index=True, return_inverse=True)
        in_order = np.argsort(first)  # by the first position, so that different ones stay where they are
        distinct = met[first[in_order]]
        places.append(np.argsort(in_order)[of_position.reshape(-1)])
        taken = np.tensordot(taken, distinct.astype(np.float64), axes=(1, 1))  # the next kernel axis is the first again
    return ShiftMap(-shift * taken[None], places)


def _spatial_size(data: ir.Value) -> list[int] | None:
    """The sizes of the spatial axes; None unless all are known."""
    shape = data.shape
    if shape is None:
        return None
    sizes = [size for size in shape[2:] if isinstance(size, int)]
    return sizes if len(sizes) == len(shape) - 2 > 0 else None
