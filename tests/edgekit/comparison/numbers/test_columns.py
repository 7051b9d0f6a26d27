"""An offset in pixels beside a price: each column counts by its own variance."""

import numpy as np
import pytest

from edgekit.comparison.numbers.columns import ColumnAccuracy, Columns
from edgekit.comparison.numbers.metrics import OutputComparison


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def gathered(reference: np.ndarray, built: np.ndarray) -> ColumnAccuracy | None:
    columns = Columns()
    for one, other in zip(reference, built, strict=True):
        columns.add(one[np.newaxis], other[np.newaxis])
    return columns.worst()


def test_the_column_that_is_explained_the_least(rng: np.random.Generator) -> None:
    scales = np.array([1, 5, 1e5])
    reference = (rng.normal(size=(40, 3)) * scales + [1e4, 0, 0]).astype(np.float32)
    built = (reference + rng.normal(size=(40, 3)) * [0.1, 4.0, 0.1]).astype(np.float32)
    worst = gathered(reference, built)
    wide, found = reference.astype(np.float64), built.astype(np.float64)
    explained = 1 - ((found - wide) ** 2).sum(axis=0) / (len(wide) * wide.var(axis=0))
    assert worst is not None
    assert (worst.column, worst.columns) == (1, 3)
    assert worst.explained == pytest.approx(explained[1], abs=1e-6)
    assert worst.is_lost
    near = gathered(reference, reference + np.float32(0.01))
    assert near is not None
    assert not near.is_lost


def test_what_has_one_scale_is_judged_as_a_whole(rng: np.random.Generator) -> None:
    scales = np.array([1, 1e3])
    apart = (rng.normal(size=(40, 2)) * scales).astype(np.float32)
    assert gathered(apart, apart) == ColumnAccuracy(0, 2, 1.0)
    assert gathered(apart[:15], apart[:15]) is None
    of_one_scale = (rng.normal(size=(40, 2)) * [1, 9]).astype(np.float32)
    assert gathered(of_one_scale, of_one_scale) is None
    shares = np.stack([rng.uniform(0, 1, 40), rng.uniform(0, 0.01, 40)], axis=1).astype(np.float32)
    assert gathered(shares, shares) is None
    constant = np.stack([apart[:, 1], np.full(40, 7, np.float32)], axis=1)
    assert gathered(constant, constant) is None
    embedding = (rng.normal(size=(40, 17)) * np.logspace(0, 3, 17)).astype(np.float32)
    assert gathered(embedding, embedding) is None
    rows = apart.reshape(20, 2, 2)
    assert gathered(rows, rows) is None


def test_numbers_that_are_not_finite_and_other_lengths_do_not_count(rng: np.random.Generator) -> None:
    apart = (rng.normal(size=(40, 2)) * [1, 1e3]).astype(np.float32)
    broken = apart.copy()
    broken[3, 0] = np.nan
    assert gathered(apart, broken) is None
    columns = Columns()
    for one in apart:
        columns.add(one, one)
    columns.add(np.ones(3, np.float32), np.ones(3, np.float32))
    assert columns.worst() is None


def test_an_output_s_record_names_it(rng: np.random.Generator) -> None:
    apart = (rng.normal(size=(40, 2)) * [1, 1e3]).astype(np.float32)
    output = OutputComparison("y")
    for one in apart:
        output.add(one, one)
    assert output.result().as_record()["worst_column"] == {"column": 0, "columns": 2, "explained": 1.0}
    single = OutputComparison("y")
    single.add(apart[0], apart[0])
    assert "worst_column" not in single.result().as_record()


def centred(reference: np.ndarray, built: np.ndarray) -> float | None:
    columns = Columns()
    for one, other in zip(reference, built, strict=True):
        columns.add(one[np.newaxis], other[np.newaxis])
    return columns.centred_db()


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("factor", [1.0, 1e200])
def test_what_varies_around_a_large_number(rng: np.random.Generator, width: int, factor: float) -> None:
    reference = 300 + 10 * rng.normal(size=(40, 1)) + np.arange(width) * 25  # quantiles: the last is the largest
    built = reference + 2
    expected = 10 * np.log10((reference.var(axis=0) * 40).sum() / (4 * 40 * width))
    assert centred(reference * factor, built * factor) == pytest.approx(expected)


def test_classes_and_shares_are_no_quantities(rng: np.random.Generator) -> None:
    scores = rng.normal(size=(40, 3))
    assert centred(scores, scores + 0.1) is None  # which entry is the largest varies
    shares = rng.random((40, 1))
    assert centred(shares, shares + 0.1) is None
    assert centred(300 + scores[:15, :1], 300 + scores[:15, :1]) is None  # too few to tell
    constant = np.full((40, 1), 300.0)
    assert centred(constant, constant + 1) is None


def test_quantities_beyond_one_are_no_shares(rng: np.random.Generator) -> None:
    output = OutputComparison("y")
    for length in 300 + 10 * rng.normal(size=(40, 1)):
        output.add(length, length + 2)
    assert output.result().centred_db is not None
    assert not output.result().are_shares


def test_shares_by_which_all_samples_are_of_one_class_are_quantities(rng: np.random.Generator) -> None:
    output = OutputComparison("y")
    for rare in rng.uniform(0, 0.3, 40):
        shares = np.array([1 - rare, rare])
        output.add(shares, shares + 0.01)
    assert output.result().centred_db is not None
    assert output.result().are_shares


def test_errors_in_the_units_of_each_number(rng: np.random.Generator) -> None:
    reference = rng.normal(size=(50, 2)) * [4, 3e6] + [20, 1e8]
    built = reference + rng.normal(size=(50, 2)) * [0.1, 4e4]
    comparison = OutputComparison("y")
    for one, other in zip(reference, built, strict=True):
        comparison.add(one[np.newaxis], other[np.newaxis])
    errors = np.abs(built - reference)
    for place, found in enumerate(comparison.result().errors):
        assert found.mean == pytest.approx(errors[:, place].mean())
        assert found.most == pytest.approx(errors[:, place].max())
        assert found.deviation == pytest.approx(reference[:, place].std())
    assert len(comparison.result().as_record()["errors"]) == 2
