"""Integers for a matrix of weights in few bits: which levels occur, and which of them stands for each weight.

Levels come from one-dimensional k-means, each weight counting by how much its input moves the output. Integers are then
chosen input by input, and what rounding one adds to the outputs is taken off the inputs that follow: Frantar et al.,
GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers (ICLR 2023), algorithm 1, with
palettes in place of a grid.
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
"""Into how many parts a step of the integers is cut, for k-means to work on counts of them."""
ROUNDS = 60
DAMPING = 0.01
"""Part of the mean power of inputs that is added to every input's."""
DAMPINGS = (DAMPING, 0.1, 1.0, 10.0)
"""What is tried on samples apart: the fewer there are, the less of what inputs have in common holds for others."""
PROBED_STEP = 16
"""Steps of 8-bit integers that are one of the coarse grid on which dampings are compared: 4 bits."""
LARGEST_PEAK = 8.0
"""Channels whose largest weight is at most this multiple of the root of their mean square are scaled by the latter."""
FEW_BITS = 4
"""With more bits a palette is finer than 8-bit integers whose scale leaves room for other channels' peaks."""

WHOLE_BITS = 8
"""Integers of 8 bits are rounded to nearest: there is nothing left to gain."""

HIGH = TYPES["int8"].high
Nearest = Callable[[np.ndarray], np.ndarray]
"""The levels that are nearest to the scaled weights of one input, ``[N]``."""


@dataclass(frozen=True)
class Inputs:
    """What enters a product."""

    moments: np.ndarray
    """``E[x x']``, ``[K, K]``."""
    damping: float = DAMPING
    """Part of the mean power that is added to every input's, so that less is made of what inputs have in common."""

    @cached_property
    def power(self) -> np.ndarray:
        """``E[x^2]`` of each input, ``[K]``."""
        return np.maximum(np.diag(self.moments), 0.0)

    @cached_property
    def order(self) -> np.ndarray:
        """The inputs, the strongest first."""
        return np.argsort(-self.power, kind="stable")

    @cached_property
    def upper(self) -> np.ndarray:
        """The upper Cholesky factor of the inverse of the moments, in that order; float32 ``[K, K]``."""
        damping = max(self.damping * float(np.mean(self.power)), float(TINY))
        damped = self.moments + np.eye(len(self.moments)) * damping
        inverse = np.linalg.inv(damped[np.ix_(self.order, self.order)])
        return np.asarray(np.linalg.cholesky(inverse).T, np.float32)


def damped(matrix: np.ndarray, halves: tuple[np.ndarray, np.ndarray], moments: np.ndarray) -> Inputs:
    """What enters a product, with the damping that is best for samples that it was not chosen on.

    Integers in 4 bits are chosen by the moments of one half of the samples and judged by those of the other, and the
    other way round. Of 40 pictures a network's last layers see fewer independent inputs than they have; what is fitted
    to these moved the outputs of other pictures 20 dB more.

    Args:
        matrix: float32 ``[N, K]``.
        halves: ``E[x x']`` of one half of the samples and of the other, ``[K, K]`` each.
        moments: Of all of them.
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
        matrix: float32 ``[N, K]``, one row an output channel.
        form: How they are stored.
        inputs: What enters; None where nothing is known of it.

    Returns:
        int8 ``[N, K]``, and parameters with axis 0, or 1 where there are blocks.
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
    """Which part of the range of the integers each scaled weight falls into."""
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
    """The level that is nearest to each cell, for each group of channels that share a palette; int8 ``[G, cells]``."""
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
    """Levels with little squared error for numbers that are counted.

    Lloyd's rounds, from quantiles of the cube root of the density (Panter and Dite, 1951).
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
    """Integers chosen input by input, the strongest input first; int8 ``[N, K]``."""
    order, upper = inputs.order, inputs.upper
    left = matrix[:, order].T.copy()  # one input after the other, each with its outputs side by side
    steps = np.broadcast_to(scale, matrix.shape)[:, order].T
    chosen = np.empty((len(order), len(matrix)), np.int8)
    for place in range(len(order)):
        chosen[place] = nearest(left[place] / steps[place])
        error = (left[place] - chosen[place] * steps[place]) / upper[place, place]
        left[place + 1 :] -= np.outer(upper[place, place + 1 :], error)
    result = np.empty(matrix.shape, np.int8)
    result[:, order] = chosen.T
    return result
