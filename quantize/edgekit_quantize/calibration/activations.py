"""Computes the scale and zero point of an activation from its calibration statistics."""

from __future__ import annotations

import numpy as np

from edgekit_quantize.calibration.answers import with_both_answers
from edgekit_quantize.calibration.ranges import AROUND_ZERO, MOST_LOST, RULES, make, squared_error
from edgekit_quantize.calibration.statistics import ChannelStatistics, TensorStatistics
from edgekit_quantize.integers.qparams import TYPES, QParams
from edgekit_quantize.settings import Preparation

CLIPPED = 255
"""The range of types with at most this number of steps is worth clipping; in a type with 65,535 steps, outliers fit."""
WHOLE_RANGE = "minmax"
MARGIN = 1.25
"""How many times as large as on the samples numbers may be before they, or a sum of their products, saturate."""
FEW = 128
"""With fewer than FEW numbers per channel (behind pooling or in a table, there is one per sample), other samples exceed
the observed range, so it is widened by :data:`MARGIN`. When the range ended with the samples, a classifier of text
direction, calibrated on 32 pages, had 18.5 dB on 64 other pages and 4.5 dB on the worst of them; with the margin it has
29.3 and 16.6 dB. Its head alone, calibrated on 8 to 32 pages, had 23.7 dB on average instead of 34.6 dB."""


def activation_params(tensor: TensorStatistics, preparation: Preparation, rule: str) -> QParams:
    """Scale and zero point of an activation: its own if they were chosen per channel, else those given by the rule."""
    if tensor.params is not None:
        return tensor.params
    dtype = TYPES[preparation.activations]
    if dtype.high - dtype.low > CLIPPED:
        rule = WHOLE_RANGE
    low, high = RULES[rule](tensor.histogram, dtype, preparation.symmetric_activations)
    if any(0 < channels.count < FEW for channels in tensor.channels.values()):
        low, high = _widened(tensor, low, high)
    if tensor.tells_answers:
        low, high = with_both_answers(low, high)
    params = make(low, high, dtype, preparation.symmetric_activations)
    if rule == AROUND_ZERO:
        around_zero = make(low, high, TYPES["int8"], symmetric_range=True)
        if squared_error(tensor.histogram, around_zero) <= MOST_LOST * squared_error(tensor.histogram, params):
            return around_zero
    return params


def _widened(tensor: TensorStatistics, low: float, high: float) -> tuple[float, float]:
    """The range widened by :data:`MARGIN`, but not beyond the limits of the tensor."""
    least, most = tensor.limits
    if tensor.smoothing is not None:
        smallest = float(tensor.smoothing.factors.min())
        least, most = least / smallest, most / smallest
    return min(low, max(MARGIN * low, least)), max(high, min(MARGIN * high, most))


def largest_integers(params: QParams, channels: ChannelStatistics | None) -> np.ndarray:
    """The largest integer that each channel of an activation takes, counted from the type's lowest; ``[C]``.

    Runtimes multiply unsigned activations, and add 128 to signed ones. Inputs may be :data:`MARGIN` times as large as
    those on the samples.

    Args:
        params: How the activation is quantized.
        channels: The statistics of its channels; with None, all channels get the type's largest integer.
    """
    if channels is None or not channels.count:
        return np.full(1, params.dtype.high - params.dtype.low)
    steps = np.rint(MARGIN * np.maximum(channels.high, 0.0) / params.scale) + params.zero_point
    return np.asarray(np.clip(steps, params.dtype.low, params.dtype.high) - params.dtype.low)
