"""Which samples are outliers, unlike the other data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from edgekit.data.samples import Sample
from edgekit_quantize.calibration.outliers import Peaks, RemainingSamples, warning_of


def _outlying(reached: Sequence[float]) -> dict[int, str]:
    peaks = Peaks()
    for number, peak in enumerate(reached):
        peaks.watch({"x": np.array([-peak, 0.1], np.float32), "ids": np.array([9**number])}, f"{number}.npz")
    return peaks.outlying()


NORMALISED = [2.0 + number / 40 for number in range(40)]


@pytest.mark.parametrize(
    ("reached", "places"),
    [
        ([*NORMALISED, 255.0], {40}),
        ([255.0, *NORMALISED, 65535.0], {0, 41}),
        ([*NORMALISED[:15], 255.0], {15}),
        (NORMALISED, set()),
        ([*NORMALISED, 60.0], set()),  # 24 times the median
        ([*NORMALISED, 255.0, 255.0, 255.0], set()),  # more than one in 20 are a kind of data
        ([*NORMALISED, 30.0, 255.0], set()),  # a long tail, without a gap
        ([*NORMALISED[:14], 255.0], set()),  # too few to tell
        ([0.0] * 30 + [1.0], set()),  # a mask, or a state at its beginning
    ],
)
def test_outliers_are_few_and_far_from_all_others(reached: list[float], places: set[int]) -> None:
    assert set(_outlying(reached)) == places


def test_long_tails_are_no_outliers() -> None:
    """Amounts of money, ``exp(N(0, 1.5²))``: of 100 the largest is some 40 times the median; nine in ten draws are kept
    whole."""
    rng = np.random.default_rng(0)
    kept = [not _outlying(np.exp(rng.normal(0, 1.5, 100)).tolist()) for _ in range(200)]
    assert np.mean(kept) > 0.9


def test_numbers_that_are_missing_reach_nowhere() -> None:
    peaks = Peaks()
    for number in range(20):
        peaks.watch({"x": np.array([np.nan, 1000.0 if number == 3 else 1.0], np.float32)}, f"{number}.npz")
    assert set(peaks.outlying()) == {3}


def test_the_warning_names_samples_inputs_and_numbers() -> None:
    assert warning_of(_outlying([*NORMALISED, 76500.0])) == (
        "1 sample is left out of calibration and scores: 40.npz: the input 'x' reaches 7.65e+04, at most 2.5 in "
        "half of the samples. Check how these samples were made; if the device meets such data, give more than one "
        "such sample in 20"
    )
    many = warning_of(dict.fromkeys(range(5), "s.npz: the input 'x' reaches 255, at most 1 in half of the samples"))
    assert many.startswith("5 samples are left out of calibration and scores: s.npz: ")
    assert "; and 2 more. Check" in many


class _Numbers:
    has_labels = True

    def __len__(self) -> int:
        return 5

    def __iter__(self) -> Iterator[Sample]:
        return (Sample(str(number), {}, label=number) for number in range(5))


def test_samples_without_some_can_be_walked_again() -> None:
    left = RemainingSamples(_Numbers(), frozenset({0, 3}))
    assert (len(left), left.has_labels) == (3, True)
    assert [[sample.name for sample in left] for _ in range(2)] == [["1", "2", "4"]] * 2
