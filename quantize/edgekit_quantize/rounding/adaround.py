"""Adaptive rounding: which weights to round up and which down, so that a layer's output changes least.

Nagel et al., Up or Down? Adaptive Rounding for Post-Training Quantization (ICML 2020). The paper shows (section 3)
that the expected loss is, to second order and layer by layer, ``delta E[x x'] delta'`` for each output channel, a
binary problem in the rounding directions. With a bias correction at hand the mean of the error costs nothing, so the
covariance stands for ``E[x x']``. The problem is solved here by coordinate descent from rounding to nearest: one
direction after the other is flipped where that lowers the sum, until none does.
"""

from __future__ import annotations

import numpy as np

from edgekit_quantize.integers.qparams import QParams

SWEEPS = 12
"""The most rounds over all inputs; most layers settle in half of them."""
DAMPING = 1e-3
"""Part of the mean variance that is added to every input's, so that inputs that calibration never moved count too."""


def adaptive_rounding(weights: np.ndarray, params: QParams, covariance: np.ndarray) -> np.ndarray:
    """Integers for ``weights``, each the floor or the ceiling of its scaled weight.

    Args:
        weights: ``[N, K]``, one row an output channel.
        params: Symmetric parameters, one scale a row or one in all.
        covariance: ``[K, K]``, of the layer's inputs.

    Returns:
        int8 ``[N, K]``.
    """
    scale = np.broadcast_to(np.asarray(params.scale, np.float64).reshape(-1, 1), (len(weights), 1))
    exact = weights.astype(np.float64) / scale
    integers = np.clip(np.rint(exact), -params.dtype.high, params.dtype.high)
    loss = covariance + np.eye(len(covariance)) * max(
        DAMPING * float(np.mean(np.diag(covariance))), np.finfo(float).tiny
    )
    error = integers - exact  # in steps; a row's scale does not change which directions are best
    slope = error @ loss
    for _ in range(SWEEPS):
        flips = 0
        for k in range(weights.shape[1]):
            step = np.where(error[:, k] > 0, -1.0, 1.0)
            gain = 2 * step * slope[:, k] + loss[k, k]
            fits = np.abs(integers[:, k] + step) <= params.dtype.high
            flip = (gain < 0) & fits & (error[:, k] != 0)
            if not flip.any():
                continue
            change = np.where(flip, step, 0.0)
            integers[:, k] += change
            error[:, k] += change
            slope[flip] += np.outer(change[flip], loss[k])
            flips += int(flip.sum())
        if not flips:
            break
    return integers.astype(np.int8)
