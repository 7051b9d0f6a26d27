from __future__ import annotations

import numpy as np
import pytest

DRAWS = 20_000


def test_uniform_values_fill_their_interval(run_op):
    values = run_op("random_uniform", shape=[DRAWS], low=-2.0, high=4.0, fed=[])
    assert values.dtype == np.float32
    assert -2 <= values.min() < -1.9
    assert 3.9 < values.max() < 4
    assert values.mean() == pytest.approx(1, abs=0.1)


def test_normal_values_have_mean_and_deviation(run_op):
    values = run_op("random_normal", shape=[DRAWS], mean=3.0, stddev=0.5, fed=[])
    assert values.mean() == pytest.approx(3, abs=0.02)
    assert values.std() == pytest.approx(0.5, rel=0.03)


def test_bernoulli_values_are_zero_or_one(run_op):
    values = run_op("random_bernoulli", shape=[DRAWS], prob=0.2, fed=[])
    assert set(np.unique(values)) == {0, 1}
    assert values.mean() == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("mode", ["logits", "probs"])
def test_categories_are_drawn_by_their_probability(run_op, mode):
    probabilities = np.float32([[0.1, 0.0, 0.6, 0.3], [1, 0, 0, 0]])
    with np.errstate(divide="ignore"):
        x = probabilities if mode == "probs" else np.log(probabilities) + 5
    drawn = run_op("random_categorical", x=x, mode=mode, size=DRAWS)
    assert drawn.shape == (2, DRAWS)
    for row, expected in zip(drawn, probabilities, strict=True):
        np.testing.assert_allclose(np.bincount(row.astype(int), minlength=4) / DRAWS, expected, atol=0.02)


def test_a_seed_gives_the_same_values_in_every_run(one_operation):
    seeded = one_operation("random_normal", {"shape": [3], "seed": 5}, ios=15, fed=[], dtypes=["float32"])
    np.testing.assert_array_equal(seeded.run()[0], seeded.run()[0])


def test_without_a_seed_runs_differ_and_runners_agree(one_operation):
    first, second = (
        one_operation("random_uniform", {"shape": [3]}, ios=15, fed=[], dtypes=["float32"]) for _ in range(2)
    )
    values = first.run()[0]
    np.testing.assert_array_equal(values, second.run()[0])
    assert not np.array_equal(values, first.run()[0])
