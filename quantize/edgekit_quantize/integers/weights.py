"""Weights as integers: per channel, per tensor or block-wise, symmetric around zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import integer
from edgekit_quantize.integers.qparams import TINY, IntegerType, QParams

LARGEST_SUM = 2**15 - 1
"""The largest signed integer of 16 bits."""
LARGEST_ACTIVATION = 255


def layer_weights(
    layer: Layer, weights: np.ndarray, dtype: IntegerType, largest_inputs: np.ndarray | None = None
) -> QParams:
    """Scales for the weights of a layer that multiplies integers, one per output channel, so that no sum saturates.

    x86 processors without VNNI multiply 8-bit integers by VPMADDUBSW, which adds the products of two neighboring
    inputs in 16 bits, with saturation (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2). An
    output channel with two neighbors whose sum could saturate gets a larger scale; other channels keep theirs.

    Args:
        layer: The layer, which determines which weights are neighbors.
        weights: The layer's float weights, multiplied by the factors that divide its input.
        dtype: The integer type.
        largest_inputs: The largest integer of each input channel, counted from the type's lowest; ``[C]``. None if
            sums have more than 16 bits.
    """
    params = symmetric_weights(weights, dtype, layer.channel_axis)
    if largest_inputs is None or layer.kind == "DepthwiseConv":  # a depthwise convolution does not sum over channels
        return params
    return _kept_from_saturation(params, _largest_sum(layer, weights, largest_inputs))


def matrix_weights(weights: np.ndarray, dtype: IntegerType, axis: int, *, sums_in_int16: bool) -> QParams:
    """Scales, one per output, for a matrix that multiplies activations whose ranges are found in every run.

    Args:
        weights: Float weights with two axes.
        dtype: The integer type.
        axis: The axis of the outputs.
        sums_in_int16: Whether the sum of two neighboring products has to fit into 16 bits (:func:`layer_weights`), with
            inputs of up to 255.
    """
    params = symmetric_weights(weights, dtype, axis)
    if not sums_in_int16:
        return params
    products = np.moveaxis(weights, axis, 0) * np.float32(LARGEST_ACTIVATION)
    return _kept_from_saturation(params, _largest_of_pairs(products[:, None, :]))


def _kept_from_saturation(params: QParams, largest_sum: np.ndarray) -> QParams:
    """The parameters, with scales enlarged so that sums of two products, given for float weights, fit into 16 bits."""
    rounding = 2 * LARGEST_ACTIVATION  # two weights may be rounded up, by less than 1 each
    scale = np.maximum(params.scale, largest_sum / (LARGEST_SUM - rounding))
    return replace(params, scale=scale.astype(np.float32))


def _largest_sum(layer: Layer, weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """The largest sum of two neighboring products with float weights, of either sign, by output channel; ``[N]``.

    Neighbors are successive input channels, in each matrix of a batch separately. If the number of channels is odd, the
    last channel of one kernel position may be the neighbor of the first channel of the next. If the weights are the
    first factor, ``inputs`` describes columns of the activation and not input channels: each is then assumed to reach
    255.
    """
    rows = np.moveaxis(weights, layer.channel_axis, 0)
    rows = np.moveaxis(rows, 1, -1) if layer.kind in {"Conv", "ConvTranspose"} else rows
    outputs, channels = len(rows), rows.shape[-1]
    groups = integer(layer.node, "group", 1) if layer.kind == "Conv" else 1
    if inputs.size != groups * channels or layer.data_index != 0:
        inputs = np.full(groups * channels, LARGEST_ACTIVATION)
    by_output = np.repeat(inputs.reshape(groups, channels), outputs // groups, axis=0)
    products = rows.reshape(outputs, -1, channels) * by_output[:, None, :].astype(np.float32)
    forms = [products, products.reshape(outputs, 1, -1)] if channels % 2 else [products]
    found: np.ndarray = np.max([_largest_of_pairs(form) for form in forms], axis=0)
    return found


def _largest_of_pairs(products: np.ndarray) -> np.ndarray:
    """The largest magnitude of a sum of two same-sign neighbors along the last of three axes, by the first; ``[N]``."""
    outputs, _, count = products.shape
    pairs = np.pad(products, ((0, 0), (0, 0), (0, count % 2))).reshape(outputs, -1, 2)
    found: np.ndarray = np.max([np.maximum(sign * pairs, 0).sum(-1).max(-1, initial=0.0) for sign in (1, -1)], axis=0)
    return found


def symmetric_weights(weights: np.ndarray, dtype: IntegerType, axis: int | None, block: int = 0) -> QParams:
    """Scales from the largest magnitude of each channel (``axis``), of each block along it, or of the whole tensor.

    The type's range is used symmetrically (-127…127 in int8), as the integer kernels of the runtimes expect. A
    channel of zeros gets the scale 1.

    Args:
        weights: Float weights of any rank.
        dtype: The integer type.
        axis: The axis of the output channels, or with ``block`` the axis that is cut into blocks; None for one scale
            per tensor.
        block: How many neighbors along ``axis`` share a scale; 0 for one scale per channel.
    """
    if block and axis is not None:
        whole = weights.shape[axis] // block * block
        before = (slice(None),) * axis
        blocks = weights[(*before, slice(0, whole))].reshape(
            *weights.shape[:axis], -1, block, *weights.shape[axis + 1 :]
        )
        rest = weights[(*before, slice(whole, None))]
        ends = [_magnitude(blocks, axis + 1)]
        if rest.size:
            ends.append(np.expand_dims(_magnitude(rest, axis), axis))
        largest = np.concatenate(ends, axis)
    else:
        largest = _magnitude(weights, None if axis is None else tuple(i for i in range(weights.ndim) if i != axis))
    scale = np.asarray(largest.astype(np.float32) / dtype.high, np.float32)
    scale = np.where(scale > TINY, scale, np.float32(1.0)).astype(np.float32)
    return QParams(scale, np.zeros(scale.shape, np.int32), dtype, axis, block)


def _magnitude(array: np.ndarray, axis: int | tuple[int, ...] | None) -> np.ndarray:
    """The largest magnitude along axes, without a temporary array of all magnitudes."""
    largest: np.ndarray = np.maximum(array.max(axis, initial=0.0), -array.min(axis, initial=0.0))
    return largest
