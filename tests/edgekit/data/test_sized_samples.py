from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from edgekit.data.samples import Sample
from edgekit.data.sized_samples import SizedSamples
from edgekit.model import ValueSpec


class Given:
    """Samples of arrays."""

    has_labels = True

    def __init__(self, *feeds: dict[str, np.ndarray]) -> None:
        self._feeds = feeds

    def __len__(self) -> int:
        return len(self._feeds)

    def __iter__(self) -> Iterator[Sample]:
        return (Sample(str(number), feeds, number) for number, feeds in enumerate(self._feeds))


def row(*values: int) -> np.ndarray:
    return np.array([values])


def test_items_of_a_batch_are_different_samples() -> None:
    base = Given({"x": row(1, 2), "k": np.array(7)}, {"x": row(3, 4), "k": np.array(8)})
    inputs = [ValueSpec("x", "int64", ("N", 2)), ValueSpec("k", "int64", ())]
    first, second = SizedSamples(base, inputs, {"N": 3}, 2)
    np.testing.assert_array_equal(first.feeds["x"], [[1, 2], [3, 4], [1, 2]])
    np.testing.assert_array_equal(second.feeds["x"], [[3, 4], [1, 2], [3, 4]])
    assert [int(sample.feeds["k"]) for sample in (first, second)] == [7, 8]
    assert (first.name, first.label) == ("sample 0 at N=3", None)


def test_inputs_that_share_a_dimension_get_the_same_size() -> None:
    base = Given({"ids": row(1, 2, 3), "mask": row(1, 1, 0)}, {"ids": row(4, 5), "mask": row(1, 0)})
    inputs = [ValueSpec("ids", "int64", (1, "L")), ValueSpec("mask", "int64", (1, "L"))]
    (sample,) = SizedSamples(base, inputs, {"L": 4}, 1)
    np.testing.assert_array_equal(sample.feeds["ids"], [[1, 2, 3, 4]])
    np.testing.assert_array_equal(sample.feeds["mask"], [[1, 1, 0, 1]])


def test_smaller_sizes_are_cut_and_further_axes_repeated() -> None:
    base = Given({"x": np.arange(6).reshape(2, 3)})
    (sample,) = SizedSamples(base, [ValueSpec("x", "int64", ("H", "W"))], {"H": 1, "W": 5}, 1)
    np.testing.assert_array_equal(sample.feeds["x"], [[0, 1, 2, 0, 1]])


def test_axes_for_which_no_size_is_asked_have_the_size_of_the_first_sample() -> None:
    base = Given({"ids": row(1, 2, 3), "mask": row(1, 1, 0)}, {"ids": row(4, 5), "mask": row(1, 0)})
    inputs = [ValueSpec("ids", "int64", ("N", "L")), ValueSpec("mask", "int64", ("N", None))]
    first, second = SizedSamples(base, inputs, {"N": 2}, 2)
    np.testing.assert_array_equal(first.feeds["ids"], [[1, 2, 3], [4, 5, 4]])
    np.testing.assert_array_equal(first.feeds["mask"], [[1, 1, 0], [1, 0, 1]])
    np.testing.assert_array_equal(second.feeds["ids"], [[4, 5], [1, 2]])
    np.testing.assert_array_equal(second.feeds["mask"], [[1, 0], [1, 1]])


def test_samples_are_joined_along_the_axis_that_is_asked_even_if_an_axis_before_it_takes_any_size() -> None:
    base = Given({"x": np.array([[1, 2], [3, 4]])}, {"x": np.array([[5, 6]])})
    (sample,) = SizedSamples(base, [ValueSpec("x", "int64", ("T", "N"))], {"N": 3}, 1)
    np.testing.assert_array_equal(sample.feeds["x"], [[1, 2, 5], [3, 4, 5]])


def test_an_empty_past_becomes_one_of_zeros() -> None:
    base = Given({"past": np.zeros((1, 0, 2), np.float32)}, {"past": np.zeros((1, 0, 2), np.float32)})
    (sample,) = SizedSamples(base, [ValueSpec("past", "float32", ("N", "P", 2))], {"N": 3, "P": 4}, 1)
    np.testing.assert_array_equal(sample.feeds["past"], np.zeros((3, 4, 2), np.float32))
    assert sample.feeds["past"].dtype == np.float32


def test_a_dimension_that_follows_from_others_gets_the_size_that_follows() -> None:
    base = Given({"mask": row(1, 0, 1, 1), "past": np.arange(6).reshape(3, 2)})
    inputs = [ValueSpec("mask", "int64", (1, "P + 1")), ValueSpec("past", "int64", ("P", 2))]
    (sample,) = SizedSamples(base, inputs, {"P": 5}, 1)
    np.testing.assert_array_equal(sample.feeds["mask"], [[1, 0, 1, 1, 1, 0]])
    assert sample.feeds["past"].shape == (5, 2)


def test_samples_of_one_size_are_the_same_where_what_they_are_made_of_is() -> None:
    base, inputs = Given({"x": row(1, 2)}), [ValueSpec("x", "int64", ("N", 2))]
    samples = SizedSamples(base, inputs, {"N": 3}, 2)
    assert samples == SizedSamples(base, inputs, {"N": 3}, 2)
    assert hash(samples) == hash(SizedSamples(base, inputs, {"N": 3}, 2))
    assert samples != SizedSamples(base, inputs, {"N": 4}, 2)
    assert samples != SizedSamples(Given({"x": row(1, 2)}), inputs, {"N": 3}, 2)


def test_a_sequence_that_is_cut_counts_no_more_steps_than_it_has() -> None:
    base = Given({"x": np.zeros((1, 6), np.float32), "count": np.array([5])})
    inputs = [ValueSpec("x", "float32", (1, "T")), ValueSpec("count", "int64", (1,))]
    (cut,) = SizedSamples(base, inputs, {"T": 2}, 1, {"count": 3})
    np.testing.assert_array_equal(cut.feeds["count"], [2])
    (longer,) = SizedSamples(base, inputs, {"T": 9}, 1, {"count": 10})
    np.testing.assert_array_equal(longer.feeds["count"], [5])


def padded(*lengths: int) -> dict[str, np.ndarray]:
    """A batch of sequences, padded to the longest."""
    return {"x": np.zeros((len(lengths), max(lengths), 2), np.float32), "lengths": np.array(lengths)}


LENGTHS = [ValueSpec("x", "float32", ("N", "T", 2)), ValueSpec("lengths", "int64", ("N",))]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"N": 2, "T": 9}, [9, 4]),
        ({"N": 3, "T": 9}, [9, 4, 3]),
        ({"N": 2, "T": 3}, [3, 3]),
        ({"N": 1, "T": 2}, [2]),
    ],
)
def test_the_longest_sequence_fills_the_axis_as_in_the_samples(sizes: dict[str, int], expected: list[int]) -> None:
    (sample,) = SizedSamples(Given(padded(5, 4), padded(3, 5)), LENGTHS, sizes, 1)
    np.testing.assert_array_equal(sample.feeds["lengths"], expected)
    assert sample.feeds["lengths"].dtype == np.int64


def test_samples_of_several_sizes_are_filled_by_their_longest_sequences() -> None:
    (sample,) = SizedSamples(Given(padded(4, 3), padded(7, 3)), LENGTHS, {"N": 4, "T": 9}, 1)
    np.testing.assert_array_equal(sample.feeds["lengths"], [4, 3, 9, 3])


def test_lengths_fill_an_axis_for_which_no_size_is_asked() -> None:
    first, second = SizedSamples(Given(padded(5), padded(3)), LENGTHS, {"N": 2}, 2)
    np.testing.assert_array_equal(first.feeds["lengths"], [5, 3])
    np.testing.assert_array_equal(second.feeds["lengths"], [3, 3])


def test_lengths_that_fill_no_axis_stay() -> None:
    shorter = padded(5, 4) | {"lengths": np.array([4, 4])}
    (sample,) = SizedSamples(Given(padded(5, 4), shorter), LENGTHS, {"N": 2, "T": 9}, 1)
    np.testing.assert_array_equal(sample.feeds["lengths"], [5, 4])


def test_flags_that_are_as_great_as_a_batch_stay() -> None:
    base = Given({"x": np.zeros((1, 2), np.float32), "flag": np.array(1)})
    inputs = [ValueSpec("x", "float32", ("N", 2)), ValueSpec("flag", "int64", ())]
    (sample,) = SizedSamples(base, inputs, {"N": 4}, 1)
    assert int(sample.feeds["flag"]) == 1


def test_ids_as_great_as_their_own_number_stay() -> None:
    (sample,) = SizedSamples(Given({"ids": row(4, 1, 2, 3)}), [ValueSpec("ids", "int64", (1, "L"))], {"L": 6}, 1)
    np.testing.assert_array_equal(sample.feeds["ids"], [[4, 1, 2, 3, 4, 1]])
