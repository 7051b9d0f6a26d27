from __future__ import annotations

import numpy as np
import pytest

from edgekit_quantize.calibration.channel_histogram import STEPS, VALUES, ChannelHistogram


def test_every_number_lies_within_half_a_bin_of_what_its_bin_stands_for() -> None:
    numbers = np.array([[0.3, -7.0, 0.0, 1e-9], [1000.0, 0.011, -2.5e-5, 4.0]], np.float32)
    histogram = ChannelHistogram()
    histogram.update(numbers, 0)

    for row, counts in zip(numbers, histogram.counts, strict=True):
        counted = np.repeat(VALUES, counts.astype(int))
        np.testing.assert_allclose(counted, np.sort(row), rtol=1 / STEPS, atol=1e-6)


def test_extremes_are_exact_and_streams_add_up(rng: np.random.Generator) -> None:
    parts = [(rng.normal(size=(2, 3, 50)) * scale).astype(np.float32) for scale in (0.01, 30.0)]
    histogram = ChannelHistogram()
    for part in parts:
        histogram.update(part, 1)

    both = np.concatenate([part.transpose(1, 0, 2).reshape(3, -1) for part in parts], 1)
    np.testing.assert_array_equal(histogram.low, both.min(1))
    np.testing.assert_array_equal(histogram.high, both.max(1))
    np.testing.assert_array_equal(histogram.counts.sum(1), [200] * 3)


def test_division_gives_the_histogram_of_the_divided_numbers(rng: np.random.Generator) -> None:
    numbers = (rng.normal(size=(1, 3, 4000)) * np.array([0.1, 1.0, 50.0])[:, None]).astype(np.float32)
    factors = np.array([0.1, 1.0, 50.0], np.float32)
    histogram = ChannelHistogram()
    histogram.update(numbers, 1)

    divided = histogram.divided(factors)

    expected = numbers / factors[:, None]
    assert [divided.low, divided.high] == pytest.approx([expected.min(), expected.max()])
    assert divided.total == expected.size
    assert divided.sum_of_squares / divided.total == pytest.approx(np.mean(expected**2), rel=0.02)


def test_what_is_not_finite_counts_as_zero() -> None:
    histogram = ChannelHistogram()
    histogram.update(np.array([[np.nan, 2.0, np.inf]], np.float32), 0)

    assert [*histogram.low, *histogram.high] == [0.0, 2.0]
    assert histogram.not_finite == histogram.divided(np.ones(1)).not_finite == 2
    assert histogram.holds_nan
    assert histogram.divided(np.ones(1)).holds_nan


def test_an_array_without_numbers_changes_nothing() -> None:
    """Crops of boxes, of which a picture has none."""
    histogram = ChannelHistogram(3)
    for boxes in (0, 2, 0):
        histogram.update(np.full((boxes, 3, 4, 4), 5.0, np.float32), 1)

    assert histogram.counts.sum(1).tolist() == [32, 32, 32]
    assert [*histogram.low, *histogram.high] == [0, 0, 0, 5, 5, 5]


@pytest.mark.parametrize("magnitude", [1e-36, 1e-8, 1e-3, 5e3, 1e5, 1e30])
def test_numbers_of_any_magnitude_have_bins(magnitude: float) -> None:
    """Sound in integers of 16 bits reaches 32,768, and what a network computes of it more."""
    numbers = (np.array([[0.3, -0.7, 0.011, -1.0], [1.0, 0.02, -0.05, 0.9]]) * magnitude).astype(np.float32)
    histogram = ChannelHistogram()
    histogram.update(numbers, 0)

    for row, counts in zip(numbers, histogram.counts, strict=True):
        np.testing.assert_allclose(np.repeat(histogram.values, counts), np.sort(row), rtol=1 / STEPS)


def test_counts_move_where_later_numbers_are_larger() -> None:
    parts = [np.array([[value, -3 * value]], np.float32) for value in (1e-12, 2.0, 5e4, 1e9)]
    histogram = ChannelHistogram()
    for part in parts:
        histogram.update(part, 0)

    found = np.repeat(histogram.values, histogram.counts[0])
    np.testing.assert_allclose(found, np.sort(np.concatenate(parts, 1)[0]), rtol=1 / STEPS, atol=1.0)
    assert np.count_nonzero(found) == 6  # 1e-12 counts as 0 beside 1e9
