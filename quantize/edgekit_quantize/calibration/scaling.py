"""The factors that an activation is divided by before it is quantized."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.integers.qparams import QParams


@dataclass(frozen=True)
class Smoothing:
    """The factors that a tensor is divided by."""

    factors: np.ndarray
    """float32, one per channel."""
    axis: int
    """The axis of the channels: 1, or -1 for the last."""

    def along(self, rank: int) -> np.ndarray:
        """The factors, shaped to divide a tensor of ``rank`` dimensions."""
        shape = [1] * rank
        shape[self.axis] = -1
        return self.factors.reshape(shape)

    def into(self, layer: Layer) -> np.ndarray:
        """The layer's weights multiplied by the factors, for a divided input."""
        weights = layer.weights()
        if layer.kind == "DepthwiseConv":
            wide = np.repeat(self.factors, len(weights) // len(self.factors))
            return np.asarray(weights * wide.reshape(-1, *[1] * (weights.ndim - 1)))
        if layer.kind == "Conv":
            return np.asarray(weights * self.factors.reshape(-1, *[1] * (weights.ndim - 2)))
        return np.asarray(weights * (self.factors[:, None] if layer.channel_axis == 1 else self.factors))


@dataclass(frozen=True)
class ChannelScales:
    """How a tensor is quantized channel by channel."""

    smoothing: Smoothing
    """The factors that it is divided by."""
    params: QParams
    """How the divided tensor is quantized."""
