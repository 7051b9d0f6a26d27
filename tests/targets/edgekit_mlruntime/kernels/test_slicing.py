from __future__ import annotations

import numpy as np
import pytest
import torch

from edgekit_mlruntime.failures import ExecutionError

X = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"begin": [1, 2], "end": [3, 5]}, X[1:3, 2:5]),
        ({"begin": [-3, 0], "end": [-1, 100]}, X[1:3, :]),
        ({"begin": [0, 5], "end": [4, 0], "stride": [2, -2]}, X[[0, 2]][:, [5, 3, 1]]),
        ({"begin": [3, 5], "end": [2, 4], "begin_mask": [True, True], "end_mask": [False, True]}, X[:2, :]),
        # An open end is where a slice of negative stride begins or ends by itself.
        (
            {"begin": [0, 0], "end": [0, 0], "stride": [-1, 1], "begin_mask": [True] * 2, "end_mask": [True] * 2},
            X[[3, 2, 1, 0]],
        ),
        ({"begin": [-1, 1], "end": [0, 4], "squeeze_mask": [True, False]}, X[3, 1:4]),
        ({"begin": [2, 3], "end": [0, 0], "squeeze_mask": [True, True]}, X[2, 3]),
        # A masked beginning is 0 there too: so coremltools infers values.
        ({"begin": [2, 3], "end": [0, 0], "begin_mask": [True, False], "squeeze_mask": [True, True]}, X[0, 3]),
        ({"begin": [3, 0], "end": [1, 6]}, X[:0]),
    ],
)
def test_slice_by_index(run_op, arguments, expected):
    actual = run_op("slice_by_index", x=X, **arguments)
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


def test_slice_by_index_takes_positions_computed_at_run_time(run_op):
    actual = run_op(
        "slice_by_index",
        x=X,
        begin=np.int32([1, 0]),
        end=np.int32([2, 3]),
        fed=["x", "begin", "end"],
        squeeze_mask=[1, 0],
    )
    np.testing.assert_array_equal(actual, [6, 7, 8])


def test_slice_update_leaves_its_input_alone(run_op):
    before = X.copy()
    actual = run_op("slice_update", ios=18, x=X, update=np.float32([[-1, -2]]), begin=[1, 0], end=[2, 4], stride=[1, 2])
    np.testing.assert_array_equal(actual[1], [-1, 7, -2, 9, 10, 11])
    np.testing.assert_array_equal(actual[[0, 2, 3]], before[[0, 2, 3]])
    np.testing.assert_array_equal(X, before)


def test_slice_by_size_takes_the_rest_for_minus_one(run_op):
    np.testing.assert_array_equal(run_op("slice_by_size", x=X, begin=[1, 4], size=[2, -1]), [[10, 11], [16, 17]])
    np.testing.assert_array_equal(run_op("slice_by_size", x=X, begin=[-1, 0], size=[1, 2]), [[18, 19]])


def test_slice_by_size_does_not_reach_beyond_the_input(run_op):
    with pytest.raises(ExecutionError, match="beyond the input"):
        run_op("slice_by_size", x=X, begin=[1, 4], size=[2, 3])


def test_split_in_equal_parts_or_given_sizes(run_op):
    for actual, expected in zip(
        run_op("split", x=X, num_splits=3, axis=1, dtypes=["float32"] * 3),
        torch.split(torch.tensor(X), 2, 1),
        strict=True,
    ):
        np.testing.assert_array_equal(actual, expected)
    parts = run_op("split", x=X, split_sizes=[1, 0, 3], num_splits=3, axis=0, dtypes=["float32"] * 3)
    assert [part.shape for part in parts] == [(1, 6), (0, 6), (3, 6)]
    np.testing.assert_array_equal(parts[2], X[1:])


def test_split_refuses_sizes_that_do_not_add_up(run_op):
    with pytest.raises(ExecutionError, match="add up"):
        run_op("split", x=X, split_sizes=[1, 2], axis=0, dtypes=["float32"] * 2)


def test_split_refuses_parts_that_are_not_equal(run_op):
    with pytest.raises(ExecutionError, match="not equal"):
        run_op("split", x=X, num_splits=4, axis=1, dtypes=["float32"] * 4)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("stride", [1, 2])
def test_sliding_windows_agree_with_unfold(run_op, axis, stride):
    expected = torch.tensor(X).unfold(axis, 3, stride).movedim(-1, axis % 2 + 1)
    np.testing.assert_array_equal(run_op("sliding_windows", x=X, axis=axis, size=3, stride=stride), expected)
