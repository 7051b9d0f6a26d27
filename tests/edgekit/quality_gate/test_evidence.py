from __future__ import annotations

import math
from itertools import pairwise
from statistics import median

import numpy as np
import pytest

from edgekit.quality_gate.evidence import BETS, CLIP, ERROR, SCALING_PAIRS, ConfidenceSequence


def sequence(differences: np.ndarray, *, look_every: int = 1) -> ConfidenceSequence:
    evidence = ConfidenceSequence()
    for number, difference in enumerate(differences, 1):
        evidence.add(float(difference))
        if number % look_every == 0:
            evidence.look()
    return evidence


def test_nothing_is_known_before_there_is_evidence() -> None:
    evidence = ConfidenceSequence()
    evidence.look()
    assert (evidence.lower, evidence.upper, evidence.count) == (-math.inf, math.inf, 0)
    assert math.isnan(evidence.estimate)


def test_equal_differences_settle_as_soon_as_the_fortune_is_a_hundred() -> None:
    """Every bet is won in full: the fortune is the mean of (1 + b)^n, 58.9 after 8 bets and 113.9 after 9."""
    assert (BETS, ERROR, SCALING_PAIRS) == ((0.1, 0.25, 0.5, 0.95), 0.01, 5)
    assert sequence(np.full(5 + 8, 0.3)).lower == -math.inf
    settled = sequence(np.full(5 + 9, 0.3))
    assert (settled.lower, settled.upper) == (pytest.approx(0.3, abs=1e-4), pytest.approx(0.3, abs=1e-4))


def fortune(differences: list[float], centre: float) -> float:
    """What the module's description says, step by step."""
    fortunes = [1.0] * len(BETS)
    for number in range(SCALING_PAIRS, len(differences)):
        before = differences[:number]
        scale = CLIP * median(abs(one - median(before)) for one in before)
        score = min(1.0, max(-1.0, (differences[number] - centre) / scale))
        fortunes = [held * (1 + bet * score) for held, bet in zip(fortunes, BETS, strict=True)]
    return sum(fortunes) / len(fortunes)


def test_bounds_are_where_the_fortune_passes_a_hundred() -> None:
    differences = list(np.random.default_rng(1).laplace(0.1, 0.05, 60))
    evidence = ConfidenceSequence()
    for difference in differences:
        evidence.add(difference)
    evidence.look()
    assert fortune(differences, evidence.lower) >= 100 > fortune(differences, evidence.lower + 1e-4)
    mirrored = [-difference for difference in differences]
    assert fortune(mirrored, -evidence.upper) >= 100 > fortune(mirrored, -evidence.upper + 1e-4)
    assert evidence.lower < 0.1 < evidence.upper


def test_bounds_only_come_nearer() -> None:
    evidence = ConfidenceSequence()
    bounds = []
    for difference in np.random.default_rng(2).standard_cauchy(80) * 0.1:
        evidence.add(float(difference))
        evidence.look()
        bounds.append((evidence.lower, evidence.upper))
    assert all(before[0] <= after[0] and before[1] >= after[1] for before, after in pairwise(bounds))
    assert bounds[-1][0] > -math.inf


def test_a_centre_that_moves_leaves_no_bounds() -> None:
    noise = np.random.default_rng(3).normal(0, 0.01, 200)
    assert not sequence(noise, look_every=5).contradictory
    assert sequence(noise + np.repeat([0, 1], 100), look_every=5).contradictory


def slots(rng: np.random.Generator, count: int) -> np.ndarray:
    """Differences of two turns that take equally long, on a machine whose noise lasts over many pairs."""
    noise = np.zeros(count)
    for number in range(1, count):
        noise[number] = 0.97 * noise[number - 1] + rng.normal(0, 0.08)
    return noise * rng.choice([-1, 1], count)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "heavy", "waves"])
def test_hardly_ever_is_a_bound_wrong_at_any_time(kind: str) -> None:
    """Each bound errs in 1 % of all cases at most: of 300, more than 10 happen with probability 0.0003."""
    rng = np.random.default_rng(4)
    wrong_below = wrong_above = 0
    for _ in range(300):
        noise = {
            "normal": lambda: rng.normal(0, 0.1, 120),
            "heavy": lambda: rng.standard_cauchy(120) * 0.1,
            "waves": lambda: slots(rng, 120),
        }[kind]()
        evidence = sequence(noise, look_every=8)
        wrong_below += evidence.lower > 0
        wrong_above += evidence.upper < 0
    assert max(wrong_below, wrong_above) <= 10
