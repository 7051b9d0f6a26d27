from __future__ import annotations

import numpy as np
import pytest
from torch import tensor
from torch.nn import functional

from edgekit_mlruntime.failures import ExecutionError


def test_concat(run_op):
    first, second = np.float32([[1, 2], [3, 4]]), np.float32([[5], [6]])
    np.testing.assert_array_equal(run_op("concat", fed=[], values=(first, second), axis=-1), [[1, 2, 5], [3, 4, 6]])


def test_concat_interleaves_slices_as_documented(run_op):
    first, second = np.float32([[1, 2], [3, 4], [5, 6]]), np.float32([[7, 8], [9, 10], [11, 12]])
    actual = run_op("concat", fed=[], values=(first, second), axis=0, interleave=True)
    np.testing.assert_array_equal(actual, [[1, 2], [7, 8], [3, 4], [9, 10], [5, 6], [11, 12]])
    actual = run_op("concat", fed=[], values=(first, second), axis=-1, interleave=True)
    np.testing.assert_array_equal(actual, [[1, 7, 2, 8], [3, 9, 4, 10], [5, 11, 6, 12]])


def test_concat_makes_a_vector_of_scalars(run_op):
    actual = run_op("concat", fed=[], values=(np.int32(3), np.int32([4, 5]), np.int32(6)), axis=0, dtypes=["int32"])
    np.testing.assert_array_equal(actual, [3, 4, 5, 6])


@pytest.mark.parametrize(("axis", "expected"), [(0, [[1, 2], [3, 4]]), (-1, [[1, 3], [2, 4]])])
def test_stack(run_op, axis, expected):
    actual = run_op("stack", fed=[], values=(np.float32([1, 2]), np.float32([3, 4])), axis=axis)
    np.testing.assert_array_equal(actual, expected)


def test_tile(run_op):
    np.testing.assert_array_equal(run_op("tile", x=np.float32([[1, 2]]), reps=[2, 2]), [[1, 2, 1, 2], [1, 2, 1, 2]])


def test_tile_does_not_repeat_a_negative_number_of_times(run_op):
    with pytest.raises(ExecutionError, match="a negative number of repetitions"):
        run_op("tile", x=np.float32([[1, 2]]), reps=[2, -1])


def test_tile_repeats_along_every_dimension(run_op):
    with pytest.raises(ExecutionError, match="another number of repetitions than of dimensions"):
        run_op("tile", x=np.float32([[1, 2]]), reps=[2, 2, 2])


@pytest.mark.parametrize(
    ("mode", "torch_mode"), [("constant", "constant"), ("reflect", "reflect"), ("replicate", "replicate")]
)
def test_pad_of_the_last_dimensions_agrees_with_torch(run_op, rng, mode, torch_mode):
    x = rng.standard_normal((2, 3, 4, 5), np.float32)
    # torch wants the pairs of the last dimension first.
    expected = functional.pad(tensor(x), (3, 4, 1, 2), torch_mode)
    np.testing.assert_array_equal(run_op("pad", x=x, pad=[1, 2, 3, 4], mode=mode), expected)


def test_pad_with_a_value_computed_sizes_and_other_element_types(run_op):
    x = np.float32([[1, 2]])
    actual = run_op("pad", x=x, pad=np.int32([1, 0, 0, 2]), constant_val=-3.0, fed=["x", "pad"])
    np.testing.assert_array_equal(actual, [[-3, -3, -3, -3], [1, 2, -3, -3]])
    actual = run_op("pad", x=np.int32([1]), pad=[1, 1], constant_val=np.int32(2**31 - 1), dtypes=["int32"])
    np.testing.assert_array_equal(actual, [2**31 - 1, 1, 2**31 - 1])


def test_pad_refuses_modes_it_does_not_know(run_op):
    with pytest.raises(ExecutionError, match="mode"):
        run_op("pad", x=np.float32([1]), pad=[1, 1], mode="wrap")
