"""Integers for a matrix of weights in few bits: which levels occur, and which level each weight gets.

Levels come from one-dimensional k-means, in which each weight counts by the power of its input. Integers are then
chosen input by input, and the error that one adds to the outputs is compensated by the weights of the following inputs:
Frantar et al., GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers (ICLR 2023), algorithm
1, with palettes instead of a grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from edgekit_quantize.integers.qparams import TINY, TYPES, QParams
from edgekit_quantize.integers.weights import symmetric_weights
from edgekit_quantize.sizing.forms import Form

STEPS = 4
"""The number of histogram bins per step of the integers, on which k-means works."""
ROUNDS = 60
"""The maximum number of k-means iterations."""
DAMPING = 0.01
"""The share of the inputs' mean power that is added to the power of every input."""
DAMPINGS = (DAMPING, 0.1, 1.0, 10.0)
"""The dampings that are compared by cross-validation: the fewer samples there are, the less the correlations of inputs
hold for other samples."""
PROBED_STEP = 16
"""One step of the coarse grid on which dampings are compared, in steps of 8-bit integers: 4 bits."""
LARGEST_PEAK = 8.0
"""A palette's channels are scaled by their root mean square if every channel's largest weight is at most this multiple
of it."""
FEW_BITS = 4
"""Palettes with more bits are scaled by each channel's largest weight: they are finer than the 8-bit integers that
would be left if the scale had to make room for the peaks of other channels."""

WHOLE_BITS = 8
"""Integers of 8 bits are rounded to nearest, because compensation gains nothing there."""

HIGH = TYPES["int8"].high
Nearest = Callable[[np.ndarray], np.ndarray]
"""Returns the levels nearest to the scaled weights of one input, ``[N]``."""


@dataclass(frozen=True)
class Inputs:
    """Statistics of the inputs of a product."""

    moments: np.ndarray
    """``E[x x']``, ``[K, K]``."""
    damping: float = DAMPING
    """The share of the mean power that is added to the power of every input, so that correlations count less."""

    @cached_property
    def power(self) -> np.ndarray:
        """``E[x^2]`` of each input, ``[K]``."""
        return np.maximum(np.diag(self.moments), 0.0)

    @cached_property
    def order(self) -> np.ndarray:
        """The indices of the inputs, the one with the greatest power first; ``[K]``."""
        return np.argsort(-self.power, kind="stable")

    @cached_property
    def upper(self) -> np.ndarray:
        """The upper Cholesky factor of the inverse of the damped moments, in :attr:`order`; float32 ``[K, K]``."""
        damping = max(self.damping * float(np.mean(self.power)), float(TINY))
        damped = self.moments + np.eye(len(self.moments)) * damping
        inverse = np.linalg.inv(damped[np.ix_(self.order, self.order)])
        return np.asarray(np.linalg.cholesky(inverse).T, np.float32)


def damped(matrix: np.ndarray, halves: tuple[np.ndarray, np.ndarray], moments: np.ndarray) -> Inputs:
    """The statistics of a product's inputs, with the damping that is best by cross-validation.

    Integers in 4 bits are chosen by the moments of one half of the samples and scored by those of the other half, and
    vice versa. On 40 pictures, the last layers of a network see fewer independent inputs than they have; weights fitted
    to these inputs changed the outputs for other pictures by 20 dB more.

    Args:
        matrix: float32 ``[N, K]``.
        halves: ``E[x x']`` of each half of the samples, ``[K, K]`` each.
        moments: ``E[x x']`` of all samples.
    """
    scale, _ = symmetric_weights(matrix, TYPES["int8"], 0).spread(matrix.shape)

    def lost(damping: float) -> float:
        total = 0.0
        for known, other in (halves, halves[::-1]):
            chosen = _compensated(matrix, scale, Inputs(known, damping), _coarse)
            error = (matrix - chosen * scale).astype(np.float64)
            total += float(np.sum((error @ other) * error)) / max(float(np.trace(other)), float(TINY))
        return total

    return Inputs(moments, min(DAMPINGS, key=lost))


def _coarse(scaled: np.ndarray) -> np.ndarray:
    most = HIGH // PROBED_STEP * PROBED_STEP
    return np.asarray(np.clip(np.rint(scaled / PROBED_STEP) * PROBED_STEP, -most, most))


def encoded(matrix: np.ndarray, form: Form, inputs: Inputs | None) -> tuple[np.ndarray, QParams]:
    """Integers and scales for a matrix of weights.

    Args:
        matrix: float32 ``[N, K]``, one row per output channel.
        form: How the weights are stored.
        inputs: Statistics of the inputs; None if there are none.

    Returns:
        int8 ``[N, K]``, and parameters with axis 0, or axis 1 if the form has blocks.
    """
    params = _scales(matrix, form)
    scale, _ = params.spread(matrix.shape)
    if not form.palette:
        high = params.dtype.high
        if inputs is None or form.bits >= WHOLE_BITS:
            return params.quantize(matrix), params
        return _compensated(matrix, scale, inputs, lambda x: np.clip(np.rint(x), -high, high)), params
    power = np.ones(matrix.shape[1]) if inputs is None else inputs.power
    tables = _palettes(matrix, scale, power + DAMPING * power.mean(), form)
    owner = np.repeat(np.arange(len(tables)), len(matrix) // len(tables))
    if inputs is not None:
        return _compensated(matrix, scale, inputs, lambda x: np.asarray(tables[owner, _cells(x)])), params
    integers = np.empty(matrix.shape, np.int8)
    for row, group in enumerate(owner):
        integers[row] = tables[group, _cells(matrix[row] / scale[row])]
    return integers, params


def _cells(scaled: np.ndarray) -> np.ndarray:
    """The index of the histogram bin that each scaled weight falls into."""
    return np.asarray(np.clip(np.rint((scaled + HIGH) * STEPS), 0, 2 * HIGH * STEPS), np.intp)


def _scales(matrix: np.ndarray, form: Form) -> QParams:
    if form.block:
        return symmetric_weights(matrix, TYPES["int4" if form.bits == FEW_BITS else "int8"], 1, form.block)
    params = symmetric_weights(matrix, TYPES["int8"], 0)
    if form.palette and form.bits <= FEW_BITS:
        root = np.sqrt(np.mean(np.square(matrix, dtype=np.float64), axis=1))
        largest = params.scale * params.dtype.high
        used = root > 0
        peak = float(np.max(largest[used] / root[used], initial=1.0))
        if peak <= LARGEST_PEAK:
            scale = np.where(used, root * peak / params.dtype.high, 1.0)
            return replace(params, scale=scale.astype(np.float32))
    return params


def _palettes(matrix: np.ndarray, scale: np.ndarray, power: np.ndarray, form: Form) -> np.ndarray:
    """The level nearest to each histogram bin, for each group of channels with one palette; int8 ``[G, bins]``."""
    together = form.slices or len(matrix)
    centres = np.arange(2 * HIGH * STEPS + 1) / STEPS - HIGH
    tables = np.empty((len(matrix) // together, len(centres)), np.int8)
    for group in range(len(tables)):
        mass = np.zeros(len(centres))
        for row in range(group * together, (group + 1) * together):
            counted = np.bincount(_cells(matrix[row] / scale[row]), power, len(centres))
            mass += counted * float(scale[row].max()) ** 2
        levels = np.unique(np.rint(_levels(centres, mass, 2**form.bits)))
        tables[group] = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, centres)]
    return tables


def _levels(centres: np.ndarray, mass: np.ndarray, count: int) -> np.ndarray:
    """At most ``count`` levels with little squared error for a histogram.

    Lloyd's algorithm, starting from quantiles of the cube root of the density (Panter and Dite, 1951).
    """
    density = np.cumsum(np.cbrt(mass))
    if not density[-1]:
        return np.zeros(1)
    wanted = (np.arange(count) + 0.5) / count * density[-1]
    levels = np.unique(np.interp(wanted, density, centres))
    sums, moments = np.cumsum(mass), np.cumsum(mass * centres)
    for _ in range(ROUNDS):
        cuts = np.searchsorted(centres, (levels[1:] + levels[:-1]) / 2)
        ends = np.concatenate([cuts - 1, [len(centres) - 1]])
        held = np.diff(sums[ends], prepend=0.0)
        means = np.diff(moments[ends], prepend=0.0) / np.where(held > 0, held, 1.0)
        moved = np.where(held > 0, means, levels)
        if np.array_equal(moved, levels):
            break
        levels = np.sort(moved)
    return levels


def _compensated(matrix: np.ndarray, scale: np.ndarray, inputs: Inputs, nearest: Nearest) -> np.ndarray:
    """Integers chosen input by input with error compensation, the strongest input first; int8 ``[N, K]``."""
    order, upper = inputs.order, inputs.upper
    left = matrix[:, order].T.copy()  # [K, N]: one row per input, contiguous over outputs
    steps = np.broadcast_to(scale, matrix.shape)[:, order].T
    chosen = np.empty((len(order), len(matrix)), np.int8)
    for place in range(len(order)):
        chosen[place] = nearest(left[place] / steps[place])
        error = (left[place] - chosen[place] * steps[place]) / upper[place, place]
        left[place + 1 :] -= np.outer(upper[place, place + 1 :], error)
    result = np.empty(matrix.shape, np.int8)
    result[:, order] = chosen.T
    return result
