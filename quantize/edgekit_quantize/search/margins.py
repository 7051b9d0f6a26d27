"""Estimates how many decisions a candidate changes if there are too few samples to count them.

A decision changes if the noise of the difference between its two largest entries exceeds that difference (the margin).
Of 40 samples, one more that changes is 2.5 %, and among many candidates some change none by chance. The margin,
however, is known for every sample.
"""

from __future__ import annotations

import math

import numpy as np

from edgekit.comparison.decisions.shared import beyond_luck

FEW_DECISIONS = 500
"""With fewer decisions, the kept share is estimated from margins; one of 500 is a fifth of the usual budget of 1 %."""
ENOUGH_DECISIONS = 16
"""With fewer decisions, changes are counted: the noise's deviation is estimated from half of the decisions, which then
are too few."""
LEAST_PROBABILITY = 1e-7
"""Smaller probabilities are replaced by this one: they are rounding errors."""
SUM_TOLERANCE = 1e-3
LARGEST_RATIO = 10.0
"""The limit of the ratio of the deviation to the mean margin; beyond it, decisions are no better than chance."""
NEAREST = 4
"""The number of the smallest margins from which the density of margins near 0 is estimated."""


class Margins:
    """Margins between the two largest entries of the float model's decisions, and a candidate's noise on them."""

    def __init__(self) -> None:
        self._margins: list[np.ndarray] = []
        self._noises: list[np.ndarray] = []

    def add(self, expected: np.ndarray, found: np.ndarray) -> None:
        """Adds the outputs for one more sample; both are ``[..., classes]``, of the same shape."""
        if expected.shape[-1] < 2:
            return
        right, made = (array.reshape(-1, array.shape[-1]).astype(np.float64) for array in (expected, found))
        if _are_probabilities(right):  # unlike theirs, the noise of their logarithms does not shrink if one is near 1
            right, made = (np.log(np.maximum(array, LEAST_PROBABILITY)) for array in (right, made))
        rows = np.arange(len(right))
        second, first = np.argpartition(right, -2, axis=-1)[:, -2:].T
        margin = right[rows, first] - right[rows, second]
        self._margins.append(margin)
        self._noises.append(made[rows, first] - made[rows, second] - margin)

    @property
    def count(self) -> int:
        """The number of decisions whose margins are known."""
        return sum(len(each) for each in self._margins)

    def expected_of_these(self, decisions: float = 1.0) -> float:
        """The share of decisions that stay, if noise is normal and margins are those of the samples.

        The mean of ``Phi(margin / deviation)``, with the deviation of :meth:`expected_agreement`. If a model is sure of
        all of its decisions, fewer margins are small than in an exponential distribution.

        Args:
            decisions: See :meth:`expected_agreement`.
        """
        if not self._margins:
            return 1.0
        margins, deviation = np.concatenate(self._margins), self._deviation(decisions)
        if not math.isfinite(deviation):
            return 0.0
        if deviation == 0:
            return 1.0
        return float(np.mean([0.5 * math.erfc(-each / deviation / math.sqrt(2)) for each in margins]))

    def expected_of_the_nearest(self, decisions: float = 1.0) -> float:
        """The share of decisions that stay, for normal noise and the density of the NEAREST smallest margins.

        ``(k - 1) / m`` is the unbiased estimate of a density whose k-th smallest value is ``m``, and the integral of
        ``Phi(-margin / deviation)`` over a density of 1 is ``deviation / sqrt(2 pi)``.

        Args:
            decisions: See :meth:`expected_agreement`.
        """
        margins = np.sort(np.concatenate([np.empty(0), *self._margins]))
        if len(margins) < 2:
            return self.expected_agreement(decisions)
        deviation, last = self._deviation(decisions), min(NEAREST, len(margins)) - 1
        if deviation == 0 or not math.isfinite(deviation):
            return 1.0 if deviation == 0 else 0.0
        changed = last * deviation / math.sqrt(2 * math.pi) / max(float(margins[last]), deviation)
        return 1 - min(0.5, changed / len(margins))

    def _deviation(self, decisions: float) -> float:
        """The standard deviation of the noise on the half of the decisions that are nearest to changing."""
        margins, noises = np.concatenate(self._margins), np.concatenate(self._noises)
        half = math.ceil(len(margins) * decisions / 2)
        near = np.argsort(margins, kind="stable")[: max(half, min(ENOUGH_DECISIONS, (len(margins) + 1) // 2))]
        return math.sqrt(float(np.mean(np.square(noises[near]))))

    def expected_agreement(self, decisions: float = 1.0) -> float:
        """The share of decisions that stay, if noise is normal and margins are exponentially distributed.

        With a deviation of ``a`` mean margins, ``1/2 - exp(a^2 / 2) erfc(a / sqrt(2)) / 2`` of the decisions change:
        the integral of ``Phi(-margin / deviation)`` over the distribution, whose mean is estimated from the median. The
        deviation is that of the half of the decisions that are nearest to changing, since noise may grow with the
        margin.

        Args:
            decisions: The share of the margins that count as decisions: "yes" may be rare among tags, and the noise on
                a thousand times as many sure "no" answers says nothing about it.
        """
        if not self._margins:
            return 1.0
        margins, deviation = np.concatenate(self._margins), self._deviation(decisions)
        if not math.isfinite(deviation):
            return 0.0
        mean = float(np.median(margins)) / math.log(2)
        if deviation == 0 or mean == 0:
            return 1.0 if deviation == 0 else 0.5
        ratio = min(deviation / mean, LARGEST_RATIO)
        return 0.5 + 0.5 * math.exp(ratio**2 / 2) * math.erfc(ratio / math.sqrt(2))


def share_kept(changed: int, count: int, margins: Margins, margins_each: float = 1.0) -> float:
    """The share of decisions that are kept; with few decisions the expected one, unless surely more change.

    Margins are more precise than counts. Of trained heads with noise on their weights, where 1 to 2 % of 300 to 597
    decisions change, a count over 32 decisions finds more than 1 % in 39 of 100 draws, and margins do in 53.

    Args:
        changed: The number of decisions that changed.
        count: The number of decisions.
        margins: The margins of the decisions.
        margins_each: The number of margins per decision that counts.
    """
    counted = 1 - changed / count
    if count >= FEW_DECISIONS:
        return counted
    decisions = min(1.0, 1 / margins_each) if margins_each else 1.0
    stay = max(margins.expected_agreement(decisions), margins.expected_of_these(decisions))
    expected = 1 - (1 - stay) * margins_each
    return max(0.0, counted if 1 - beyond_luck(changed) / count < expected else expected)


def _are_probabilities(rows: np.ndarray) -> bool:
    return bool(rows.size and rows.min() >= 0 and np.all(np.abs(rows.sum(axis=-1) - 1) < SUM_TOLERANCE))
