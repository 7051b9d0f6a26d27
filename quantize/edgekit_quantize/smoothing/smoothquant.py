"""SmoothQuant: divides an activation by a factor per channel that the weights behind it take up.

Xiao et al., SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models (ICML 2023),
equation 4: ``s_j = max|X_j|^alpha / max|W_j|^(1 - alpha)``. Outliers that stand in a few channels then no longer
coarsen the steps of all others. The paper moves the division into the LayerNorm before; here it is a Mul of its own,
which works behind any operator, and where others read the tensor too; runtimes compute it together with the rounding.

A division by channel serves depthwise convolutions too: :mod:`edgekit_quantize.smoothing.per_channel` chooses their
factors.
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
"""What a convolution reads is divided where its loudest channel is this many times the average one: mostly it
is even, and the division takes time."""
QUIETEST = 2
"""A channel that stayed below this part of the median is taken to reach it: some samples more may wake it up."""
FEW = 64
"""Fewer numbers of a channel than this, one for each sample behind pooling, tell little of what it reaches. Where each
channel fills its range, a sample that reaches further saturates all of them: integers of a classifier of the direction
of text, calibrated on 16 pages, were 8.6 dB from the outputs for 16 others, and are 13.4 dB."""
QUIETEST_OF_FEW = 0.5
"""In place of :data:`QUIETEST` then: inputs tell of what is louder than twice the median alone."""


def factors(inputs: np.ndarray, weights: Iterable[np.ndarray], alpha: float, quietest: float = QUIETEST) -> np.ndarray:
    """What to divide each channel by, float32 ``[K]`` with the geometric mean 1.

    Args:
        inputs: The largest magnitude of every input channel, ``[K]``.
        weights: Weights of every layer that reads the activation, ``[K, N]`` each.
        alpha: How much of the difficulty moves to the weights, 0 to 1.
        quietest: Below which part of the median a channel is taken to reach it.
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

    A tensor can be smoothed if integers of it go into layers of one kind alone: see
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
    """Factors for tensors.

    Args:
        tensors: The layers that read each.
        largest: The largest magnitude of every channel of each that samples brought forth.
        counts: How many numbers of each channel there were.
        alphas: How much of the difficulty moves into the weights, by kind of layer.
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
