"""One scale per channel for activations whose channels never mix.

A depthwise convolution computes each output channel from one input channel, so each input channel may have its own
scale: the tensor is divided by the channels' scales, rounded with one zero point for all channels, and the weights of
the convolution are multiplied by the scales. (One zero point, because the zeros that pad a convolution must be the same
integer in every channel.)

Each channel gets the scale with the least mean squared error of rounding and clipping together, as in Choukroun
et al., Low-bit Quantization of Neural Networks for Efficient Inference (ICCVW 2019), section 3. The zero point is the
one with the least error of the layer's output: the sum of the channels' errors, each times the sum of the squares of
the channel's weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgekit_quantize.calibration.channel_histogram import ZEROS, ChannelHistogram
from edgekit_quantize.calibration.ranges import AROUND_ZERO
from edgekit_quantize.calibration.scaling import ChannelScales, Smoothing
from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.integers.qparams import TINY, TYPES, IntegerType, QParams
from edgekit_quantize.placement import Plan
from edgekit_quantize.settings import Preparation
from edgekit_quantize.smoothing.readers import agreed, sole_readers

SHRINKS = np.geomspace(1.0, 0.08, 16)
"""The fractions of a channel's full range that are tried as its clipping range."""
ZERO_STEP = 16
FINE_ZERO_STEP = 4
"""The step between the integers that are tried as zero point at first, and then around the best of them."""
LITTLE_LOST = 1.26
"""Signed integers with the zero point 0 are used if they increase the error by at most this factor: 1 dB."""


def by_channel(plans: Sequence[Plan]) -> dict[str, list[Layer]]:
    """The tensors that get a scale per channel, each with its readers: every plan that quantizes them wants it."""
    return agreed(plans, _wanted)


def _wanted(plan: Plan) -> dict[str, list[Layer]]:
    kinds = plan.settings.preparation.channel_scales
    return {
        name: readers
        for name, readers in sole_readers(plan).items()
        if readers[0].kind in kinds and readers[0].kind == "DepthwiseConv"
    }


def channel_scales(histogram: ChannelHistogram, readers: Iterable[Layer], preparation: Preparation) -> ChannelScales:
    """The scales, the zero point and the integer type with the least error.

    Args:
        histogram: The histogram of each of the tensor's channels.
        readers: The depthwise convolutions that read the tensor.
        preparation: Gives the integer type, and whether the zero point must be its middle.
    """
    dtype = TYPES[preparation.activations]
    channels = len(histogram.counts)
    power = np.sum([np.square(layer.weights().reshape(channels, -1)).sum(1) for layer in readers], axis=0)
    tails = _Tails(histogram)
    best = _least(tails, _zeros(tails, dtype, preparation), dtype, power)
    if not preparation.symmetric_activations and best.zero:
        near = range(max(best.zero - ZERO_STEP, 0), best.zero + ZERO_STEP + 1, FINE_ZERO_STEP)
        best = _least(tails, near, dtype, power)
    if best.zero and preparation.ranges.get("DepthwiseConv") == AROUND_ZERO:
        signed = TYPES["int8"]
        around_zero = _scales(tails, -signed.low, signed)
        if around_zero.error @ power <= LITTLE_LOST * (best.error @ power):
            best, dtype = around_zero, signed
    used = best.scale > TINY
    step = float(np.exp(np.log(best.scale[used]).mean())) if used.any() else 1.0
    factors = np.where(used, best.scale / step, 1.0).astype(np.float32)
    params = QParams(np.asarray(step, np.float32), np.asarray(dtype.low + best.zero, np.int32), dtype)
    return ChannelScales(Smoothing(factors, 1), params)


def _zeros(tails: _Tails, dtype: IntegerType, preparation: Preparation) -> Iterable[int]:
    """The zero points to try, counted from the type's lowest integer."""
    if preparation.symmetric_activations:
        return [(dtype.high - dtype.low + 1) // 2]
    lowest = ZERO_STEP if tails.low.any() else 0
    highest = dtype.high - dtype.low - (ZERO_STEP if tails.high.any() else 0)
    return range(lowest, highest + 1, ZERO_STEP)


def _least(tails: _Tails, zeros: Iterable[int], dtype: IntegerType, power: np.ndarray) -> _Scales:
    """The scales for the zero point, among these, with the least error of the layers' output."""
    return min((_scales(tails, zero, dtype) for zero in zeros), key=lambda found: float(found.error @ power))


@dataclass(frozen=True)
class _Scales:
    zero: int
    scale: np.ndarray
    error: np.ndarray
    """The mean squared error of each channel; ``[C]``, as is ``scale``."""


def _scales(tails: _Tails, zero: int, dtype: IntegerType) -> _Scales:
    """The scale with the least error for each channel, given a zero point."""
    below, above = zero, dtype.high - dtype.low - zero
    full = np.maximum(tails.high / max(above, 1), -tails.low / max(below, 1))
    scale = full[:, None] * SHRINKS
    error = tails.above(scale * above) + tails.below(-scale * below) + scale**2 / 12 * tails.rounded
    chosen = error.argmin(1)[:, None]
    return _Scales(zero, np.take_along_axis(scale, chosen, 1)[:, 0], np.take_along_axis(error, chosen, 1)[:, 0])


class _Tails:
    """Mean squared distances to a limit of the numbers beyond it, computed from running sums of a histogram."""

    def __init__(self, histogram: ChannelHistogram) -> None:
        self.low, self.high = histogram.low, histogram.high
        counts = histogram.counts
        share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        self.rounded = (1 - share[:, ZEROS].sum(1))[:, None]
        """The share of numbers that rounding changes, which is all but zeros; ``[C, 1]``."""
        edge = np.zeros((len(counts), 1))
        self._values = histogram.values
        self._sums = [np.hstack([edge, np.cumsum(share * self._values**power, axis=1)]) for power in (0, 1, 2)]

    def below(self, limit: np.ndarray) -> np.ndarray:
        """The mean squared distance of numbers below ``limit``, which has the shape ``[C, S]``, as does the result."""
        place = np.searchsorted(self._values, limit.reshape(-1)).reshape(limit.shape)
        count, total, squares = (np.take_along_axis(sums, place, 1) for sums in self._sums)
        return _square(limit, count, total, squares)

    def above(self, limit: np.ndarray) -> np.ndarray:
        """The mean squared distance of numbers above ``limit``, which has the shape ``[C, S]``, as does the result."""
        place = np.searchsorted(self._values, limit.reshape(-1), side="right").reshape(limit.shape)
        count, total, squares = (sums[:, -1:] - np.take_along_axis(sums, place, 1) for sums in self._sums)
        return _square(limit, count, total, squares)


def _square(limit: np.ndarray, count: np.ndarray, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """The sum of ``(x - limit)^2``, computed from the sums of 1, x and x^2."""
    return np.asarray(np.maximum(squares - 2 * limit * total + limit**2 * count, 0.0))
