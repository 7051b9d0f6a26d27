"""Expected agreement, against integrals of the normal distribution over an exponential law, and a simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgekit_quantize.search.margins import Margins, share_kept


def expected(right: list[list[float]], found: list[list[float]]) -> float:
    margins = Margins()
    for one, other in zip(right, found, strict=True):
        margins.add(np.array([one], np.float32), np.array([other], np.float32))
    return margins.expected_agreement()


def test_the_nearer_half_tells_the_deviation() -> None:
    # Margins of 1 and 2, a median of 1.5 and a mean of 2.164; the nearer one moves by 0.5, 0.23105 of the mean.
    # 1/2 - exp(0.026692) * 0.40864 = 0.08031 change, 0.40864 being 1 - Phi(0.23105) by the table.
    found = expected([[-1, 1, 0], [2, -3, 0]], [[-1, 1.5, 0], [2, 8, 0]])
    assert found == pytest.approx(1 - 0.08031, abs=2e-4)


def test_a_simulation_of_many_decisions_is_foreseen_from_few() -> None:
    rng = np.random.default_rng(4)
    margins = rng.exponential(3.0, 200_000)
    changed = float((margins + rng.normal(0, 0.3, margins.size) < 0).mean())
    few = Margins()
    for margin in margins[:60]:
        noise = rng.normal(0, 0.3)
        few.add(np.array([[margin, 0.0, -50]]), np.array([[margin + noise, 0.0, -50]]))
    assert 1 - few.expected_agreement() == pytest.approx(changed, rel=0.35)
    assert changed == pytest.approx(0.1 / math.sqrt(2 * math.pi), rel=0.1)


@pytest.mark.parametrize(("noise_of_decisions", "share"), [(0.01, 1.0), (0.5, 1 - 0.5 * 0.1587)])
def test_noise_where_nothing_is_decided_says_nothing_of_rare_answers(noise_of_decisions: float, share: float) -> None:
    """Twenty numbers with a margin of 0.5, which would all count twice, among 20,000 that are sure and noisy.

    Of the first ones ``Phi(-1)``, 0.1587 by the table, change where the deviation is 0.5.
    """
    rng = np.random.default_rng(6)
    margins = np.array([0.5] * 20 + [9.0] * 20_000)
    noise = np.array([noise_of_decisions, -noise_of_decisions] * 10 + list(rng.normal(0, 2, 20_000)))
    known = Margins()
    known.add(np.stack([margins, 0 * margins], -1), np.stack([margins + noise, 0 * margins], -1))
    assert share_kept(0, 40, known, known.count / 40) == pytest.approx(share, abs=0.01)


def test_the_smallest_margins_tell_how_many_are_near_nothing() -> None:
    """The fourth smallest of 40 margins is 0.3: three per 0.3 near nothing.

    The deviation is 0.1, and 3 / 0.3 * 0.1 / sqrt(2 pi) = 0.39894 of 40 change.
    """
    margins = np.array([0.1, 0.15, 0.2, 0.3] + [9.0] * 36)
    noise = 0.1 * (-1) ** np.arange(40)
    known = Margins()
    known.add(np.stack([margins, 0 * margins], -1), np.stack([margins + noise, 0 * margins], -1))
    assert known.expected_of_the_nearest() == pytest.approx(1 - 0.39894 / 40, abs=1e-5)
    assert Margins().expected_of_the_nearest() == 1


def test_equals_change_as_often_as_not() -> None:
    assert expected([[1, 1]], [[1.1, 1]]) == 0.5


def test_nothing_that_moves_changes_nothing() -> None:
    assert expected([[1, 1], [2, 0]], [[1, 1], [3, 1]]) == 1
    assert Margins().expected_agreement() == 1
    assert expected([[3]], [[4]]) == 1


def test_what_is_no_number_agrees_with_nothing() -> None:
    assert expected([[1, 0]], [[float("nan"), 0]]) == 0


def test_probabilities_count_by_their_logarithms() -> None:
    # log(0.8 / 0.2) is 1.3863, a mean of 2; 0.9 / 0.1 moves it by 0.8109: as if the logits had been 1.3863 and 0.
    assert expected([[0.8, 0.2]], [[0.9, 0.1]]) == pytest.approx(expected([[1.3863, 0]], [[2.1972, 0]]), abs=1e-4)
