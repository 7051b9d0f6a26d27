from __future__ import annotations

import numpy as np
import pytest
import torch


def test_fill_has_the_declared_type(run_op):
    actual = run_op("fill", shape=np.int32([2, 3]), value=np.int32(2**31 - 1), fed=["shape"], dtypes=["int32"])
    assert actual.dtype == np.int32
    np.testing.assert_array_equal(actual, np.full((2, 3), 2**31 - 1))
    np.testing.assert_array_equal(run_op("fill", shape=[2], value=True, fed=[], dtypes=["bool"]), [True, True])
    np.testing.assert_array_equal(run_op("fill", shape=[1], fed=[]), [0.0])


def test_fill_like_takes_only_the_shape(run_op):
    x = np.int32([[5, 6]])
    actual = run_op("fill_like", ios=16, ref_tensor=x, value=0.5, fed=["ref_tensor"])
    assert actual.dtype == np.float32
    np.testing.assert_array_equal(actual, [[0.5, 0.5]])


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(0, 5, 1), (2, 9, 3), (5, 0, -2), (3, 3, 1), (5, 1, 1), (0.0, 1.0, 0.3), (1.0, -1.0, -0.5)],
)
def test_range_agrees_with_torch_where_torch_takes_it(run_op, start, end, step):
    dtype = np.float32 if isinstance(start, float) else np.int32
    expected = [] if (end - start) * step < 0 else torch.arange(start, end, step)
    actual = run_op(
        "range_1d",
        start=dtype(start), end=dtype(end), step=dtype(step), fed=["end"], dtypes=[np.dtype(dtype).name],
    )  # fmt: skip
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_one_hot_has_its_axis_anywhere(run_op, axis):
    indices = np.int32([[0, 2], [1, 0]])
    expected = torch.nn.functional.one_hot(torch.tensor(indices).long(), 3).movedim(-1, axis)
    actual = run_op(
        "one_hot", indices=indices, one_hot_vector_size=3, axis=axis, fed=["indices"], on_value=1, off_value=0,
        dtypes=["int32"],
    )  # fmt: skip
    np.testing.assert_array_equal(actual, expected)


def test_one_hot_has_only_off_values_out_of_range(run_op):
    actual = run_op(
        "one_hot", indices=np.int32([1, -1, 3]), one_hot_vector_size=2, on_value=5.0, off_value=-1.0, fed=["indices"]
    )
    np.testing.assert_array_equal(actual, [[-1, 5], [-1, -1], [-1, -1]])


def test_shape_and_non_zero(run_op):
    x = np.float32([[0, 3, 0], [-1, 0, np.nan]])
    np.testing.assert_array_equal(run_op("shape", x=x, dtypes=["int32"]), [2, 3])
    actual = run_op("non_zero", x=x, dtypes=["int32"])
    assert actual.dtype == np.int32
    np.testing.assert_array_equal(actual, torch.nonzero(torch.tensor(x)))


@pytest.mark.parametrize(
    ("lower", "upper", "reference"),
    [(0, -1, torch.triu), (-1, 0, torch.tril), (0, 0, lambda x: torch.diag_embed(torch.diagonal(x, dim1=1, dim2=2)))],
)
def test_band_part_keeps_triangles(run_op, rng, lower, upper, reference):
    x = rng.standard_normal((2, 4, 4), np.float32)
    np.testing.assert_array_equal(run_op("band_part", x=x, lower=lower, upper=upper), reference(torch.tensor(x)))


def test_band_part_keeps_a_band_of_what_is_not_square(run_op):
    actual = run_op("band_part", x=np.ones((3, 4), np.float32), lower=1, upper=1)
    np.testing.assert_array_equal(actual, [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]])


@pytest.mark.parametrize(
    ("exclusive", "reverse", "expected"),
    [
        (False, False, [1, 3, 6]),
        (True, False, [0, 1, 3]),
        (False, True, [6, 5, 3]),
        (True, True, [5, 3, 0]),
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_cumsum(run_op, exclusive, reverse, expected, axis):
    x = np.float32([[1, 2, 3]]) if axis else np.float32([[1], [2], [3]])
    actual = run_op("cumsum", x=x, axis=axis, exclusive=exclusive, reverse=reverse)
    np.testing.assert_array_equal(actual.reshape(-1), expected)


def test_cumsum_of_integers_wraps_around(run_op):
    np.testing.assert_array_equal(run_op("cumsum", x=np.int32([2**31 - 1, 1]), dtypes=["int32"]), [2**31 - 1, -(2**31)])
