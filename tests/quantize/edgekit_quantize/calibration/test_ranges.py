from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from edgekit_quantize.calibration.activations import activation_params
from edgekit_quantize.calibration.histogram import Histogram
from edgekit_quantize.calibration.ranges import AROUND_ZERO, RULES, least_error, percentile, squared_error
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.integers.qparams import TYPES, asymmetric
from edgekit_quantize.settings import Preparation


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

    params = activation_params(TensorStatistics(histogram), Preparation(), AROUND_ZERO)

    assert params.dtype is TYPES[dtype]
    assert (int(params.zero_point) == 0) == (dtype == "int8")


@pytest.mark.parametrize("kind", ["normal", "one side", "heavy tails", "two humps"])
@pytest.mark.parametrize("dtype", ["uint8", "uint4"])
def test_least_error_is_near_the_least_of_all_ranges(kind: str, dtype: str) -> None:
    """The definition itself, on the numbers and not on their histogram: every pair of ends on a grid is tried."""
    rng = np.random.default_rng(6)
    drawn = {
        "normal": rng.normal(size=20_000),
        "one side": np.abs(rng.normal(size=20_000)),
        "heavy tails": rng.standard_t(3, 20_000),
        "two humps": np.append(rng.normal(-3, 0.2, 10_000), rng.normal(5, 0.5, 10_000)),
    }
    numbers = drawn[kind].astype(np.float32)
    made = Histogram()
    made.update(numbers)

    def error(low: float, high: float) -> float:
        return float(np.mean((asymmetric(low, high, TYPES[dtype]).rounded(numbers) - numbers) ** 2))

    ends = np.linspace(0.1, 1.0, 19)
    low, high = min(float(numbers.min()), 0.0), float(numbers.max())
    best = min(error(low * a, high * b) for a in (ends if low else [0.0]) for b in ends)
    assert error(*least_error(made, TYPES[dtype])) <= 1.05 * best


def _divergence_by_definition(counts: np.ndarray, bins: int) -> float:
    """Migacz' P and Q of one magnitude, in the words of the talk: clip P into the last bin, merge to 128, spread."""
    clipped = counts[:bins].astype(float)
    clipped[-1] += counts[bins:].sum()
    spread = np.zeros(bins)
    for level in np.array_split(np.arange(bins), 128):
        filled = level[counts[level] > 0]
        if len(filled):
            spread[filled] = counts[level].sum() / len(filled)
    return float(scipy.stats.entropy(clipped / clipped.sum(), np.maximum(spread / spread.sum(), 1e-9)))


@pytest.mark.parametrize("kind", ["normal", "heavy tails"])
def test_least_divergence_is_near_that_of_the_definition(kind: str) -> None:
    rng = np.random.default_rng(7)
    numbers = rng.normal(size=200_000) if kind == "normal" else rng.standard_t(3, 200_000).clip(-60, 60)
    made = Histogram()
    made.update(numbers.astype(np.float32))
    low, high = RULES["entropy"](made, TYPES["int8"], True)
    counts, edges = np.histogram(np.abs(numbers), 2048)

    divergence = {bins: _divergence_by_definition(counts, bins) for bins in range(128, 2049, 16)}
    best = min(divergence, key=lambda bins: divergence[bins])
    found = int(np.searchsorted(edges, max(-low, high)))

    # the definition is rough: bins without a count of their own make it jump by a factor of two between neighbours
    assert divergence[min(divergence, key=lambda bins: abs(bins - found))] <= 2.5 * divergence[best]
    assert divergence[128] > 20 * divergence[best]


@pytest.mark.parametrize("percent", [80.0, 90.0, 99.0, 99.9])
def test_percentile_keeps_as_many_numbers_as_it_says(percent: float, rng: np.random.Generator) -> None:
    for numbers in (np.arange(10), rng.normal(size=10_000), rng.exponential(size=10_000)):
        made = Histogram()
        made.update(numbers.astype(np.float32))

        low, high = percentile(made, percent)

        def kept(low: float, high: float, numbers: np.ndarray = numbers) -> float:
            return 100 * float(np.mean((numbers >= low) & (numbers <= high)))

        assert kept(low, high) >= percent
        below, above = 100 * np.mean(numbers < low), 100 * np.mean(numbers > high)
        assert max(below, above) <= (100 - percent) / 2 + 1e-9  # half at each end, not all at one
