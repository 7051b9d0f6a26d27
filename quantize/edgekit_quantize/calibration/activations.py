"""Scale and zero point of an activation, from what calibration counted."""

from __future__ import annotations

import numpy as np

from edgekit_quantize.calibration.answers import with_both_answers
from edgekit_quantize.calibration.ranges import AROUND_ZERO, MOST_LOST, RULES, make, squared_error
from edgekit_quantize.calibration.statistics import ChannelStatistics, TensorStatistics
from edgekit_quantize.integers.qparams import TYPES, QParams
from edgekit_quantize.settings import Preparation

CLIPPED = 255
"""The most steps of a type whose range is worth clipping; with 65,535 of them, outliers fit."""
WHOLE_RANGE = "minmax"
MARGIN = 1.25
"""How much larger numbers may be than those that samples showed, before they or a sum of their products saturate."""
FEW = 128
"""Fewer numbers of a channel than this, one for each sample behind pooling or in a table, end short of what other
samples reach, and the range goes as far as :data:`MARGIN` allows. A classifier of the direction of text, calibrated on
32 pages, was 18.5 dB from the outputs for 64 others and 4.5 dB on the worst, where its range ended with the samples; it
is 29.3 and 16.6 dB. Its head alone, calibrated on 8 to 32 pages: 23.7 dB in place of 34.6 on average."""


def activation_params(tensor: TensorStatistics, preparation: Preparation, rule: str) -> QParams:
    """Scale and zero point of an activation: by a rule, where it has no scale of its own for every channel."""
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
    """The range with room for larger numbers, as far as the tensor can hold any."""
    least, most = tensor.limits
    if tensor.smoothing is not None:
        smallest = float(tensor.smoothing.factors.min())
        least, most = least / smallest, most / smallest
    return min(low, max(MARGIN * low, least)), max(high, min(MARGIN * high, most))


def largest_integers(params: QParams, channels: ChannelStatistics | None) -> np.ndarray:
    """The largest integer that each channel of an activation takes, counted from the type's lowest; ``[C]``.

    Runtimes multiply unsigned activations, and add 128 to signed ones. Inputs may be larger than those that were seen
    by a part (:data:`MARGIN`).

    Args:
        params: How the activation is quantized.
        channels: Its channels' extremes; None takes the type's largest integer for all.
    """
    if channels is None or not channels.count:
        return np.full(1, params.dtype.high - params.dtype.low)
    steps = np.rint(MARGIN * np.maximum(channels.high, 0.0) / params.scale) + params.zero_point
    return np.asarray(np.clip(steps, params.dtype.low, params.dtype.high) - params.dtype.low)
