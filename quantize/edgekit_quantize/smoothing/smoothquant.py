"""SmoothQuant: divides an activation by a factor per channel, and multiplies the weights that read it by the factors.

Xiao et al., SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models (ICML 2023),
equation 4: ``s_j = max|X_j|^alpha / max|W_j|^(1 - alpha)``. Outliers in a few channels then no longer coarsen the
quantization steps of all others. The paper moves the division into the LayerNorm before; here it is a separate Mul,
which works behind any operator, and if other nodes read the tensor too; runtimes fuse it with the rounding.

Activations of depthwise convolutions are divided by channel too: :mod:`edgekit_quantize.smoothing.per_channel` chooses
their factors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import integer
from edgekit_quantize.placement import Plan
from edgekit_quantize.smoothing.readers import agreed, sole_readers

LOUD = 8
"""A convolution's input is divided if the largest magnitude of its loudest channel is at least LOUD times the mean over
channels: most inputs are more even than that, and the division takes time."""
QUIETEST = 2
"""A channel whose largest magnitude is below the median divided by QUIETEST is treated as if it reached that quotient:
further samples may bring larger numbers."""
FEW = 64
"""With fewer than FEW numbers per channel (behind pooling, there is one per sample), the largest of them is a poor
estimate of the channel's range. Where each channel fills its range, a sample that reaches further saturates all of
them: the integers of a classifier of text direction, calibrated on 16 pages, had 8.6 dB on the outputs for 16 other
pages; with QUIETEST_OF_FEW they have 13.4 dB."""
QUIETEST_OF_FEW = 0.5
"""Used instead of :data:`QUIETEST` with fewer than FEW numbers per channel: each channel is treated as if it reached at
least twice the median."""


def factors(inputs: np.ndarray, weights: Iterable[np.ndarray], alpha: float, quietest: float = QUIETEST) -> np.ndarray:
    """The factors that divide the channels, float32 ``[K]`` with the geometric mean 1.

    Args:
        inputs: The largest magnitude of every input channel, ``[K]``.
        weights: Weights of every layer that reads the activation, ``[K, N]`` each.
        alpha: The exponent of equation 4, 0 to 1: how much of the range's unevenness moves to the weights.
        quietest: Channels whose magnitude is below the median divided by ``quietest`` are treated as if they reached
            that quotient.
    """
    largest = np.max([np.abs(matrix).max(axis=1) for matrix in weights], axis=0).astype(np.float64)
    used = (inputs > 0) & (largest > 0)
    if not used.any():
        return np.ones(len(inputs), np.float32)
    logarithm = np.zeros(len(inputs))
    seen = np.maximum(inputs[used].astype(np.float64), np.median(inputs[used]) / quietest)
    logarithm[used] = alpha * np.log(seen) - (1 - alpha) * np.log(largest[used])
    logarithm[used] -= logarithm[used].mean()
    return np.exp(logarithm).astype(np.float32)


def smoothable(plan: Plan) -> dict[str, list[Layer]]:
    """The tensors that the settings smooth, each with the quantized layers that read it.

    A tensor can be smoothed if only layers of one kind read its integers: see
    :func:`edgekit_quantize.smoothing.readers.sole_readers`.
    """
    return {
        name: found
        for name, found in sole_readers(plan).items()
        if plan.settings.preparation.smoothing.get(found[0].kind) and all(_takes_factors(layer) for layer in found)
    }


def smoothable_in_all(plans: Sequence[Plan]) -> dict[str, list[Layer]]:
    """The tensors that some plan smooths and every plan that quantizes them can smooth."""
    return agreed(plans, smoothable)


def smoothing(
    tensors: Mapping[str, Sequence[Layer]],
    largest: Mapping[str, np.ndarray],
    counts: Mapping[str, int],
    alphas: Mapping[str, float],
) -> dict[str, Smoothing]:
    """The smoothing factors, by tensor; tensors that were not observed, or need no division, are left out.

    Args:
        tensors: The layers that read each tensor.
        largest: The largest magnitude of every channel that was observed on samples, by tensor.
        counts: How many numbers per channel were observed, by tensor.
        alphas: The exponent ``alpha`` of :func:`factors`, by kind of layer.
    """
    found = {}
    for name, readers in tensors.items():
        if name not in largest:
            continue
        if readers[0].kind == "Conv" and largest[name].max(initial=0.0) < LOUD * largest[name].mean():
            continue
        quietest = QUIETEST if counts[name] >= FEW else QUIETEST_OF_FEW
        matrices = [_by_input(layer) for layer in readers]
        found[name] = Smoothing(
            factors(largest[name], matrices, alphas[readers[0].kind], quietest), readers[0].input_axis
        )
    return found


def _by_input(layer: Layer) -> np.ndarray:
    """The weights as ``[K, ...]`` with input channels first."""
    weights = layer.weights()
    if layer.kind == "Conv":
        return np.moveaxis(weights, 1, 0).reshape(weights.shape[1], -1)
    return weights if layer.channel_axis == 1 else weights.T


def _takes_factors(layer: Layer) -> bool:
    if layer.kind == "Conv":
        return integer(layer.node, "group", 1) == 1
    plain = layer.kind in {"MatMul", "Gemm"} and layer.weights().ndim == 2
    return plain and layer.data_index == 0 and layer.input_axis == -1
