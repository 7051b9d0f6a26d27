"""How many decisions a candidate is to be expected to change, where the samples are too few to count them.

A decision changes where the noise between its two largest entries is more than what lies between them. Of 40 samples
one more that changes is 2.5 %, and of many candidates some change none by luck; how near the decisions are to changing
is known of every sample.
"""

from __future__ import annotations

import math

import numpy as np

from edgekit.comparison.decisions.shared import beyond_luck

FEW_DECISIONS = 500
"""One of 500 is a fifth of the usual budget of 1 %."""
ENOUGH_DECISIONS = 16
"""Of fewer, half of which tell the deviation of the noise, those count that changed."""
LEAST_PROBABILITY = 1e-7
"""Smaller ones are rounding."""
SUM_TOLERANCE = 1e-3
LARGEST_RATIO = 10.0
"""Of a deviation to the mean margin; beyond it decisions are no better than chance."""
NEAREST = 4
"""How many of the smallest margins tell how dense margins are near nothing."""


class Margins:
    """Margins between the largest entries of the float model's decisions, and what a candidate makes of them."""

    def __init__(self) -> None:
        self._margins: list[np.ndarray] = []
        self._noises: list[np.ndarray] = []

    def add(self, expected: np.ndarray, found: np.ndarray) -> None:
        """Takes the outputs for one more sample, ``[..., classes]`` of one shape."""
        if expected.shape[-1] < 2:
            return
        right, made = (array.reshape(-1, array.shape[-1]).astype(np.float64) for array in (expected, found))
        if _are_probabilities(right):  # the noise of their logarithms does not shrink where one of them is near 1
            right, made = (np.log(np.maximum(array, LEAST_PROBABILITY)) for array in (right, made))
        rows = np.arange(len(right))
        second, first = np.argpartition(right, -2, axis=-1)[:, -2:].T
        margin = right[rows, first] - right[rows, second]
        self._margins.append(margin)
        self._noises.append(made[rows, first] - made[rows, second] - margin)

    @property
    def count(self) -> int:
        """Of how many decisions margins are known."""
        return sum(len(each) for each in self._margins)

    def expected_of_these(self, decisions: float = 1.0) -> float:
        """The share of decisions that stay, if noise is normal and margins are those of the samples.

        The mean of ``Phi(margin / deviation)``, with the deviation that :meth:`expected_agreement` takes. Where a model
        is sure of all of its decisions, few margins are as small as in an exponential law.

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
        """The share of decisions that stay, if noise is normal and margins are as dense as up to the fourth smallest.

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
        """The standard deviation of the noise, of half as many as there are decisions, the nearest to changing."""
        margins, noises = np.concatenate(self._margins), np.concatenate(self._noises)
        half = math.ceil(len(margins) * decisions / 2)
        near = np.argsort(margins, kind="stable")[: max(half, min(ENOUGH_DECISIONS, (len(margins) + 1) // 2))]
        return math.sqrt(float(np.mean(np.square(noises[near]))))

    def expected_agreement(self, decisions: float = 1.0) -> float:
        """The share of decisions that stay, if noise is normal and margins are as often small as in an exponential law.

        With a deviation of ``a`` mean margins, ``1/2 - exp(a^2 / 2) erfc(a / sqrt(2)) / 2`` of them change: the
        integral of ``Phi(-margin / deviation)`` over the law, whose mean is taken from the median. The deviation is
        that of the half of the decisions that are nearest to changing: noise may grow with the margin.

        Args:
            decisions: The share of those with a margin that count as decisions: a yes of tags may be rare, and noise at
                a thousand times as many that are sure of no says nothing of it.
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
    """The share of decisions that are kept; of few the expected one, unless surely more change than that.

    Margins tell of more than what changed: of 32 decisions of trained heads with noise on their weights, a count finds
    more than 1 % in 39 of 100 draws where 1 to 2 % change of 300 to 597, and margins in 53.

    Args:
        changed: How many changed.
        count: Of how many.
        margins: How near decisions are to changing.
        margins_each: How many of these there are for each that counts.
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
