from __future__ import annotations

import numpy as np
import pytest

from edgekit_quantize.calibration.histogram import BINS, LEAST_OF_ARRAY, MOST_OF_ARRAY, SAMPLED, Histogram, thinning


def test_growing_gives_the_counts_of_one_pass_with_the_last_width(rng: np.random.Generator) -> None:
    parts = [(rng.normal(size=500) * scale).astype(np.float32) for scale in (0.01, 1.0, 300.0, 0.1)]
    histogram = Histogram()
    for part in parts:
        histogram.update(part)

    expected, _ = np.histogram(np.concatenate(parts), histogram.edges)

    np.testing.assert_array_equal(histogram.counts, expected)
    assert (histogram.low, histogram.high) == (np.concatenate(parts).min(), np.concatenate(parts).max())


def test_moments_are_those_of_the_numbers(rng: np.random.Generator) -> None:
    numbers = rng.normal(2, 1, 3000).astype(np.float32)
    histogram = Histogram()
    histogram.update(numbers[:1000])
    histogram.update(numbers[1000:])

    assert histogram.sum / histogram.total == pytest.approx(numbers.mean(), rel=1e-5)
    assert histogram.sum_of_squares / histogram.total == pytest.approx(np.mean(numbers**2), rel=1e-4)


def test_what_is_not_finite_is_left_out_and_told() -> None:
    histogram = Histogram()
    histogram.update(np.array([1.0, np.nan, -2.0, np.inf], np.float32))

    assert (histogram.low, histogram.high, histogram.total, histogram.not_finite) == (-2.0, 1.0, 2, 2)


@pytest.mark.parametrize(("number", "expected"), [(np.nan, True), (np.inf, False), (0, False)])
def test_nan_is_told_apart(number: float, expected: bool) -> None:
    histogram = Histogram()
    histogram.update(np.array([number], np.float32))
    histogram.update(np.ones(3, np.float32))
    assert histogram.holds_nan == expected


def test_zeros_alone_have_no_width() -> None:
    histogram = Histogram()
    histogram.update(np.zeros(4, np.float32))
    histogram.update(np.array([0.5], np.float32))

    assert histogram.counts.sum() == 5
    assert histogram.edges[np.flatnonzero(histogram.counts)[0]] == 0.0


def test_of_large_arrays_the_extremes_stay_exact() -> None:
    numbers = np.zeros(10 * MOST_OF_ARRAY, np.float32)
    numbers[1], numbers[3] = -7.0, 9.0  # between the elements that are counted
    histogram = Histogram()
    histogram.update(numbers)

    assert (histogram.low, histogram.high) == (-7.0, 9.0)
    assert histogram.total <= MOST_OF_ARRAY


@pytest.mark.parametrize(
    ("expected", "counted"),
    [(1, MOST_OF_ARRAY), (SAMPLED // MOST_OF_ARRAY * 2, MOST_OF_ARRAY // 2), (10**6, LEAST_OF_ARRAY)],
)
def test_of_many_arrays_fewer_numbers_each_are_counted(expected: int, counted: int) -> None:
    histogram = Histogram(expected)
    histogram.update(np.zeros(4 * MOST_OF_ARRAY, np.float32))

    assert counted / 2 < histogram.total <= counted


def test_the_distance_of_what_is_counted_has_no_factor_in_common_with_a_dimension() -> None:
    assert [thinning((6, 10), wanted) for wanted in (60, 30, 15)] == [1, 7, 7]
    assert thinning((5, 5), 12) == 3


@pytest.mark.parametrize("shape", [(1, 240, 12, 80), (1, 64, 112, 112), (1, 3, 320, 320)])
def test_every_column_of_a_large_array_is_counted(shape: tuple[int, ...]) -> None:
    columns = np.broadcast_to(np.arange(shape[-1]), shape).reshape(-1)

    step = thinning(shape, MOST_OF_ARRAY)

    assert set(columns[::step]) == set(range(shape[-1]))
    assert MOST_OF_ARRAY / 4 < columns[::step].size <= MOST_OF_ARRAY


def test_numbers_next_to_nothing_are_counted_where_they_lie() -> None:
    """1 / width is beyond float32 there."""
    histogram = Histogram()
    histogram.update(np.array([-1e-37, -3e-38, 0, 0, 2e-38], np.float32))

    places = np.repeat(np.arange(2 * BINS), histogram.counts)
    lowest = histogram.edges[places].tolist()
    for number, low in zip([-1e-37, -3e-38, 0, 0, 2e-38], lowest, strict=True):
        assert low - 1e-43 <= number <= low + histogram.width + 1e-43
    assert lowest[2:4] == [0, 0]
