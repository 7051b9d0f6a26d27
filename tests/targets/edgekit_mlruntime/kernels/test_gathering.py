from __future__ import annotations

import numpy as np
import pytest
import torch

from edgekit_mlruntime.failures import ExecutionError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def gather(run_op, name, x, indices, *, ios=15, dtype="float32", **parameters):
    return run_op(name, ios=ios, x=x, indices=np.int32(indices), fed=["x", "indices"], dtypes=[dtype], **parameters)


def scatter(run_op, name, data, indices, updates, *, ios=15, **parameters):
    inputs = {"data": data, "indices": np.int32(indices), "updates": updates}
    return run_op(name, ios=ios, **inputs, fed=list(inputs), dtypes=[data.dtype.name], **parameters)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("indices", [1, [0, 1], [[1, 0, 1], [0, 0, 1]]])
def test_gather_puts_the_indices_in_place_of_the_axis(run_op, axis, indices):
    expected = torch.tensor(X).index_select(axis, torch.tensor(np.reshape(indices, -1)))
    shape = list(X.shape)
    shape[axis : axis + 1 or None] = np.shape(indices)
    np.testing.assert_array_equal(gather(run_op, "gather", X, indices, axis=axis), expected.reshape(shape))


@pytest.mark.parametrize("axis", [1, 2])
def test_gather_goes_through_batches_in_step(run_op, axis):
    indices = np.array([[0, 2], [1, 1]])
    expected = np.stack([np.take(X[i], indices[i], axis=axis - 1) for i in range(2)])
    np.testing.assert_array_equal(gather(run_op, "gather", X, indices, ios=16, axis=axis, batch_dims=1), expected)


def test_gather_with_two_batch_dimensions_and_scalar_indices(run_op):
    indices = np.array([[3, 0, 1], [2, 2, 0]])
    expected = torch.gather(torch.tensor(X), 2, torch.tensor(indices)[..., None])[..., 0]
    np.testing.assert_array_equal(gather(run_op, "gather", X, indices, ios=17, axis=2, batch_dims=2), expected)


def test_gather_along_axis_agrees_with_torch_even_where_the_indices_cover_less(run_op):
    indices = np.array([[[2, 0], [1, 1]]])
    expected = torch.gather(torch.tensor(X), 1, torch.tensor(indices))
    np.testing.assert_array_equal(gather(run_op, "gather_along_axis", X, indices, axis=1), expected)


def test_gather_nd_reads_index_tuples(run_op):
    np.testing.assert_array_equal(gather(run_op, "gather_nd", X, [[0, 1], [1, 2]]), [X[0, 1], X[1, 2]])
    np.testing.assert_array_equal(gather(run_op, "gather_nd", X, [[[0, 1, 3]], [[1, 2, 0]]]), [[7], [20]])
    np.testing.assert_array_equal(
        gather(run_op, "gather_nd", X, [[[1, 0], [2, 3]], [[0, 0], [1, 1]]], ios=16, batch_dims=1),
        [[X[0, 1, 0], X[0, 2, 3]], [X[1, 0, 0], X[1, 1, 1]]],
    )


@pytest.mark.parametrize("ios", [15, 16])
def test_negative_indices_count_from_the_end_up_to_ios_16(run_op, ios):
    np.testing.assert_array_equal(gather(run_op, "gather", X, [-1], ios=ios), X[1:])
    np.testing.assert_array_equal(gather(run_op, "gather_nd", X, [[-1, -2]], ios=ios), [X[1, 1]])
    actual = scatter(run_op, "scatter", np.zeros(3, np.float32), [-1], np.float32([5]), ios=ios)
    np.testing.assert_array_equal(actual, [0, 0, 5])


@pytest.mark.parametrize(("ios", "index"), [(16, 2), (16, -3), (17, 2), (17, -1), (18, -1)])
def test_what_is_read_out_of_range_is_not_a_number(run_op, ios, index):
    actual = gather(run_op, "gather", X, [0, index], ios=ios)
    np.testing.assert_array_equal(actual, np.stack([X[0], np.full((3, 4), np.nan)]))
    along = np.zeros((1, 3, 4), np.int32)
    along[0, 1, 2] = index
    actual = gather(run_op, "gather_along_axis", X, along, ios=ios)
    assert np.argwhere(np.isnan(actual)).tolist() == [[0, 1, 2]]
    actual = gather(run_op, "gather_nd", X, [[index, 0], [1, 1]], ios=ios)
    np.testing.assert_array_equal(actual, [[np.nan] * 4, X[1, 1]])
    actual = gather(run_op, "gather_nd", X, [[index, 0], [1, 9], [1, 1]], ios=ios)  # each out of range in another place
    np.testing.assert_array_equal(actual, [[np.nan] * 4, [np.nan] * 4, X[1, 1]])


def test_what_integers_read_out_of_range_is_the_lowest_value(run_op):
    np.testing.assert_array_equal(
        gather(run_op, "gather", np.int32([7, 8]), [1, 2], ios=17, dtype="int32"), [8, -(2**31)]
    )


def test_what_is_written_out_of_range_is_lost(run_op):
    data = np.zeros((2, 2), np.float32)
    updates = np.float32([[1, 2], [3, 4]])
    np.testing.assert_array_equal(scatter(run_op, "scatter", data, [0, -1], updates, ios=17), [[1, 2], [0, 0]])
    np.testing.assert_array_equal(
        scatter(run_op, "scatter_along_axis", data, [[0, 2], [1, -1]], updates, ios=17), [[1, 0], [3, 0]]
    )
    np.testing.assert_array_equal(
        scatter(run_op, "scatter_nd", data, [[0, 1], [2, 0]], np.float32([5, 6]), ios=17), [[0, 5], [0, 0]]
    )


@pytest.mark.parametrize("index", [-1, 2])
def test_validated_indices_out_of_range_are_an_error_as_in_core_ml(run_op, index):
    with pytest.raises(RuntimeError, match="Unable to compute the prediction") as caught:
        gather(run_op, "gather", X, [0, index], ios=17, validate_indices=True)
    assert isinstance(caught.value, ExecutionError)
    assert caught.value.found == str(index)
    with pytest.raises(ExecutionError, match="out of range"):
        scatter(run_op, "scatter", np.zeros(2, np.float32), [index], np.float32([1]), ios=17, validate_indices=True)


MODES = {
    "update": [9, 20, 30],
    "add": [19, 20, 30],
    "sub": [1, 20, 30],
    "mul": [90, 20, 30],
    "div": [10 / 9, 20, 30],
    "max": [10, 20, 30],
    "min": [9, 20, 30],
}


@pytest.mark.parametrize("mode", MODES)
def test_scatter_modes(run_op, mode):
    data, updates = np.float32([10, 20, 30]), np.float32([9])
    for name, indices in (("scatter", [0]), ("scatter_along_axis", [0]), ("scatter_nd", [[0]])):
        np.testing.assert_allclose(scatter(run_op, name, data, indices, updates, mode=mode), MODES[mode], rtol=1e-6)


def test_scatter_adds_by_default_and_leaves_its_input_alone(run_op):
    data = np.float32([[1, 2, 3], [4, 5, 6]])
    actual = scatter(run_op, "scatter", data, [1, 0], np.float32([[5, 6, 7], [8, 9, 10]]))
    np.testing.assert_array_equal(actual, [[9, 11, 13], [9, 11, 13]])
    np.testing.assert_array_equal(data, [[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize("mode", ["add", "mul"])
def test_scatter_takes_every_update_of_an_index_that_occurs_twice(run_op, mode):
    actual = scatter(run_op, "scatter", np.float32([2, 2]), [0, 0, 1], np.float32([3, 4, 5]), mode=mode)
    np.testing.assert_array_equal(actual, [9, 7] if mode == "add" else [24, 10])


def test_scatter_along_another_axis(run_op):
    actual = scatter(run_op, "scatter", np.zeros((2, 3), np.float32), [2, 0], np.float32([[1, 2], [3, 4]]), axis=-1)
    np.testing.assert_array_equal(actual, [[2, 0, 1], [4, 0, 3]])


def test_scatter_along_axis_agrees_with_torch(run_op, rng):
    data, updates = rng.standard_normal((3, 5), np.float32), rng.standard_normal((3, 2), np.float32)
    indices = rng.integers(0, 5, (3, 2))
    expected = torch.tensor(data).scatter_add(1, torch.tensor(indices), torch.tensor(updates))
    actual = scatter(run_op, "scatter_along_axis", data, indices, updates, axis=1)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_scatter_nd_writes_slices(run_op):
    actual = scatter(
        run_op, "scatter_nd", np.zeros((2, 2, 3), np.float32), [[1, 0]], np.float32([[1, 2, 3]]), mode="update"
    )
    np.testing.assert_array_equal(actual, [[[0, 0, 0], [0, 0, 0]], [[1, 2, 3], [0, 0, 0]]])


def test_scatter_divides_integers_towards_zero(run_op):
    actual = scatter(run_op, "scatter", np.int32([-7, 7]), [0, 1], np.int32([2, 2]), mode="div")
    np.testing.assert_array_equal(actual, [-3, 3])


def test_scatter_refuses_modes_it_does_not_know(run_op):
    with pytest.raises(ExecutionError, match="mode"):
        scatter(run_op, "scatter", np.float32([1]), [0], np.float32([1]), mode="average")
