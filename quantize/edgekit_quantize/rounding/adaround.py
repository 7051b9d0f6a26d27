"""Adaptive rounding: which weights to round up and which down, so that a layer's output changes least.

Nagel et al., Up or Down? Adaptive Rounding for Post-Training Quantization (ICML 2020). The paper shows (section 3)
that the expected loss is, to second order and layer by layer, ``delta E[x x'] delta'`` for each output channel, a
binary problem in the rounding directions. The problem is solved here by steepest descent from rounding to nearest: in
every output channel the direction is flipped that lowers the sum most, until none does. Where a bias correction takes
the mean of the error off, moments about the mean would tell what is left; it does so but in part (at the border of a
padded convolution the mean is another), and moments about zero lost less on seven of nine models.
"""

from __future__ import annotations

import numpy as np

from edgekit_quantize.integers.qparams import QParams

MOST_FLIPS = 4
"""The most flips of a channel, as a multiple of its inputs; about a tenth of the inputs is flipped."""
DAMPING = 1e-3
"""Part of the mean variance that is added to every input's, so that inputs that calibration never moved count too."""
TOGETHER = 2**19
"""About how many weights are rounded at once: channels do not depend on each other, and caches hold that many."""


def adaptive_rounding(weights: np.ndarray, params: QParams, moments: np.ndarray) -> np.ndarray:
    """Integers for ``weights``, each the floor or the ceiling of its scaled weight.

    Args:
        weights: ``[N, K]``, one row an output channel.
        params: Symmetric parameters, one scale a row or one in all.
        moments: ``E[x x']`` of the layer's inputs, ``[K, K]``.

    Returns:
        int8 ``[N, K]``.
    """
    scale = np.broadcast_to(np.asarray(params.scale, np.float64).reshape(-1, 1), (len(weights), 1))
    damping = max(DAMPING * float(np.mean(np.diag(moments))), np.finfo(float).tiny)
    loss = moments + np.eye(len(moments)) * damping
    high = params.dtype.high
    integers = np.empty(weights.shape, np.int8)
    rows = max(1, TOGETHER // weights.shape[1])
    for first in range(0, len(weights), rows):
        some = slice(first, first + rows)
        integers[some] = _descended(weights[some].astype(np.float64) / scale[some], loss, high)
    return integers


def _descended(exact: np.ndarray, loss: np.ndarray, high: int) -> np.ndarray:
    """Integers of at most ``high`` beside the exact numbers, both ``[N, K]``, for the ``loss`` of their errors."""
    integers: np.ndarray = np.clip(np.rint(exact), -high, high)
    error = integers - exact  # in steps; a channel's scale does not change which directions are best
    step = np.where(error > 0, -1.0, 1.0)
    gain = 2 * step * (error @ loss) + np.diag(loss)  # what a flip adds to the sum
    gain[(np.abs(integers + step) > high) | (error == 0)] = np.inf
    channels = np.arange(len(exact))
    for _ in range(MOST_FLIPS * len(loss)):
        best = gain.argmin(1)
        added = np.take_along_axis(gain, best[:, None], 1)[:, 0]
        if not (added < 0).all():
            on = added < 0
            channels, gain, step, best, added = channels[on], gain[on], step[on], best[on], added[on]
        if not len(channels):
            break
        places = np.arange(len(channels)), best
        change = step[places]
        integers[channels, best] += change
        step[places] = -change
        gain += step * loss[best] * (2 * change)[:, None]
        gain[places] = -added
    return integers
