"""SmoothQuant: divides an activation by a factor per channel that the weights behind it take up.

Xiao et al., SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language Models (ICML 2023),
equation 4: ``s_j = max|X_j|^alpha / max|W_j|^(1 - alpha)``. Outliers that stand in a few channels then no longer
coarsen the steps of all others. The paper moves the division into the LayerNorm before; here it is a Mul of its own,
which works behind any operator, and where others read the tensor too; runtimes compute it together with the rounding.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from edgekit_quantize.bias_correction import input_axis
from edgekit_quantize.layers import Layer
from edgekit_quantize.placement import Plan


def factors(inputs: np.ndarray, weights: Iterable[np.ndarray], alpha: float) -> np.ndarray:
    """What to divide each channel by, float32 ``[K]`` with the geometric mean 1.

    Args:
        inputs: The largest magnitude of every input channel, ``[K]``.
        weights: Weights of every layer that reads the activation, ``[K, N]`` each.
        alpha: How much of the difficulty moves to the weights, 0 to 1.
    """
    largest = np.max([np.abs(matrix).max(axis=1) for matrix in weights], axis=0).astype(np.float64)
    used = (inputs > 0) & (largest > 0)
    if not used.any():
        return np.ones(len(inputs), np.float32)
    logarithm = np.zeros(len(inputs))
    logarithm[used] = alpha * np.log(inputs[used].astype(np.float64)) - (1 - alpha) * np.log(largest[used])
    logarithm[used] -= logarithm[used].mean()
    return np.exp(logarithm).astype(np.float32)


def smoothable(plan: Plan) -> dict[str, list[Layer]]:
    """The tensors that can be smoothed, each with the quantized layers that read it.

    A tensor can be where integers of it go into matrix products alone: not where they are moved on, multiplied with
    another activation, or the only form in which the tensor remains.
    """
    shared = {*plan.range_from, *plan.range_from.values(), *plan.whole}
    shared.update(value.name or "" for node in plan.products for value in node.inputs if value is not None)
    readers: dict[str, list[Layer]] = {}
    for layer in plan.layers:
        readers.setdefault(layer.data.name or "", []).append(layer)
    return {
        name: found
        for name, found in readers.items()
        if name not in shared and all(_is_product(layer) for layer in found)
    }


def smoothing(
    plan: Plan, largest: dict[str, np.ndarray], alpha: float
) -> dict[str, np.ndarray]:
    """Factors for every tensor in ``largest`` that the plan lets be smoothed."""
    found = {}
    for name, readers in smoothable(plan).items():
        if name in largest:
            matrices = [layer.weights() if layer.channel_axis == 1 else layer.weights().T for layer in readers]
            found[name] = factors(largest[name], matrices, alpha)
    return found


def _is_product(layer: Layer) -> bool:
    return layer.kind in {"MatMul", "Gemm"} and layer.weights().ndim == 2 and layer.data_index == 0 and input_axis(layer) == -1
