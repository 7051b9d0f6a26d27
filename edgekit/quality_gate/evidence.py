"""Bounds of the center of a sequence of paired differences, valid however often they are looked at.

Whoever measures until the answer is clear looks again and again, and an ordinary confidence interval is wrong sooner or
later if one looks often enough. These bounds are a *confidence sequence*: the probability that a bound is ever wrong,
however long the sequence gets and whatever ends it, is at most :data:`ERROR`.

They rest on symmetry alone. Two models take turns in pairs, and a coin decides which one comes first. If one takes
``exp(c)`` times as long as the other, the coin makes the logarithm of the ratio of the two turns as likely to lie
above ``c`` by some amount as below it by that amount, whatever the machine did in the meantime: noise may have any
distribution, may last over many pairs, may come in waves. No normal distribution and no independence is assumed.

For each conceivable ``c``, a bettor starts with one unit and bets that the true center is higher: on each difference
``d`` a share ``b`` of the wealth, at the score ``clip((d - c) / s, -1, 1)``, with the scale ``s`` from earlier
differences alone. By symmetry the bets are fair if ``c`` is the true center. The wealth is then a martingale, and
exceeds ``1 / ERROR`` at any time with probability ``ERROR`` at most (J. Ville, Étude critique de la notion de
collectif, 1939; the method of betting: A. Ramdas, P. Grünwald, V. Vovk and G. Shafer, Game-Theoretic Statistics and
Safe Anytime-Valid Inference, Statistical Science 38, 2023). The lower bound is the greatest ``c`` that is refuted in
this way, the upper bound the least ``c`` that is refuted by bets that the center is lower.
Clipping limits the influence of outliers, as Huber's estimator does (P. J. Huber, Robust Estimation of a Location
Parameter, 1964).
"""

from __future__ import annotations

import math

import numpy as np

ERROR = 0.01
"""The greatest probability that a bound is ever wrong, for each of the two bounds."""
BETS = (0.1, 0.25, 0.5, 0.95)
"""Shares of the wealth that separate bettors bet; the wealth is the mean of theirs. Small shares win if noise is
great."""
SCALING_PAIRS = 5
"""How many of the first differences only determine the scale: no bet is made on them."""
CLIP = 2.0
"""The scale, in median absolute deviations: about Huber's 1.345 standard deviations for a normal distribution."""
PRECISION = 1e-5
"""The precision of a computed bound, in logarithms of ratios."""

_LEAST_SCALE = 1e-6
_BETS = np.array(BETS)


class ConfidenceSequence:
    """Bounds of the center of differences, each of which is distributed symmetrically about it, given those before.

    Once refuted, a value stays refuted: the bounds only get closer to each other.
    """

    def __init__(self) -> None:
        self._differences: list[float] = []
        self._scales: list[float] = []
        self.lower = -math.inf
        self.upper = math.inf

    @property
    def estimate(self) -> float:
        """The median of all differences; NaN if there are none."""
        return float(np.median(self._differences)) if self._differences else math.nan

    @property
    def count(self) -> int:
        """How many differences there are."""
        return len(self._differences)

    @property
    def contradictory(self) -> bool:
        """Whether every center is refuted: the center moved while it was measured."""
        return self.lower > self.upper

    def add(self, difference: float) -> None:
        """Adds a difference; :meth:`look` updates the bounds."""
        if self.count >= SCALING_PAIRS:
            deviations = np.abs(np.array(self._differences) - self.estimate)
            self._scales.append(max(CLIP * float(np.median(deviations)), _LEAST_SCALE))
        self._differences.append(difference)

    def look(self) -> None:
        """Updates the bounds."""
        betted = np.array(self._differences[SCALING_PAIRS:])
        if betted.size == 0:
            return
        scales = np.array(self._scales)
        self.lower = max(self.lower, _greatest_refuted(betted, scales))
        self.upper = min(self.upper, -_greatest_refuted(-betted, scales))


def _greatest_refuted(differences: np.ndarray, scales: np.ndarray) -> float:
    """The greatest center that bets on a higher one refute; minus infinity if they refute none.

    The higher the center, the lower are all scores and the wealth, so bisection finds the greatest.
    """
    enough = -math.log(ERROR)
    low, high = float((differences - scales).min()), float(differences.max())
    if _log_wealth(differences, scales, low) < enough:
        return -math.inf
    while high - low > PRECISION:
        middle = (low + high) / 2
        if _log_wealth(differences, scales, middle) < enough:
            high = middle
        else:
            low = middle
    return low


def _log_wealth(differences: np.ndarray, scales: np.ndarray, centre: float) -> float:
    """Logarithm of the mean wealth over all :data:`BETS`."""
    scores = np.clip((differences - centre) / scales, -1, 1)
    logs = np.log1p(np.outer(_BETS, scores)).sum(axis=1)
    return float(np.logaddexp.reduce(logs) - math.log(len(BETS)))
