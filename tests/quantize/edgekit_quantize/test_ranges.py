from __future__ import annotations

import numpy as np
import pytest

from edgekit_quantize.calibration.histogram import Histogram
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.placement import Settings
from edgekit_quantize.qparams import TYPES, asymmetric
from edgekit_quantize.ranges import AROUND_ZERO, RULES, least_error, percentile, squared_error
from edgekit_quantize.writing import activation_params


@pytest.fixture
def numbers(rng: np.random.Generator) -> np.ndarray:
    return np.append(rng.normal(size=50_000), [40.0]).astype(np.float32)


@pytest.fixture
def histogram(numbers: np.ndarray) -> Histogram:
    made = Histogram()
    made.update(numbers)
    return made


def test_minmax_is_exact(histogram: Histogram, numbers: np.ndarray) -> None:
    assert RULES["minmax"](histogram, TYPES["uint8"], False) == (numbers.min(), numbers.max())


def test_percentile_is_numpys_within_a_bin(histogram: Histogram, numbers: np.ndarray) -> None:
    low, high = percentile(histogram, 99.0)

    expected = np.percentile(numbers, [0.5, 99.5])
    np.testing.assert_allclose([low, high], expected, atol=1.5 * histogram.width)


def test_error_from_the_histogram_is_that_of_the_numbers(histogram: Histogram, numbers: np.ndarray) -> None:
    params = asymmetric(-3.0, 3.0, TYPES["uint8"])

    assert squared_error(histogram, params) == pytest.approx(
        np.mean((params.rounded(numbers) - numbers) ** 2), rel=0.05
    )


def test_least_error_leaves_an_outlier_out_when_bits_are_few(histogram: Histogram, numbers: np.ndarray) -> None:
    low, high = least_error(histogram, TYPES["uint4"])

    def error(a: float, b: float) -> float:
        return float(np.mean((asymmetric(a, b, TYPES["uint4"]).rounded(numbers) - numbers) ** 2))

    assert high < 20
    assert error(low, high) < 0.5 * error(float(numbers.min()), float(numbers.max()))


def test_least_divergence_clips_what_hardly_occurs() -> None:
    numbers = np.append(np.random.default_rng(1).normal(size=100_000), [-60.0, 55.0]).astype(np.float32)
    made = Histogram()
    made.update(numbers)

    low, high = RULES["entropy"](made, TYPES["uint8"], False)

    assert -20 < low < -3
    assert 3 < high < 20


def test_least_divergence_keeps_all_of_even_numbers() -> None:
    made = Histogram()
    made.update(np.linspace(-1, 1, 200_001, dtype=np.float32))

    assert RULES["entropy"](made, TYPES["uint8"], False) == pytest.approx((-1.0, 1.0), abs=0.01)


@pytest.mark.parametrize("rule", RULES)
def test_nothing_seen_is_an_empty_range(rule: str) -> None:
    assert RULES[rule](Histogram(), TYPES["uint8"], False) == (0.0, 0.0)


@pytest.mark.parametrize(("shift", "dtype"), [(0.0, "int8"), (3.0, "uint8")])
def test_the_zero_point_is_zero_where_that_costs_little(rng: np.random.Generator, shift: float, dtype: str) -> None:
    histogram = Histogram()
    histogram.update((rng.normal(size=5000) + shift).astype(np.float32))

    params = activation_params(TensorStatistics(histogram), Settings(), AROUND_ZERO)

    assert params.dtype is TYPES[dtype]
    assert (int(params.zero_point) == 0) == (dtype == "int8")
