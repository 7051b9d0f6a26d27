from __future__ import annotations

import numpy as np
import pytest
import torch


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("ascending", [True, False])
def test_argsort_agrees_with_torch(run_op, rng, axis, ascending):
    x = rng.integers(0, 4, (6, 7)).astype(np.float32)
    expected = torch.argsort(torch.tensor(x), dim=axis, descending=not ascending, stable=True)
    np.testing.assert_array_equal(run_op("argsort", x=x, axis=axis, ascending=ascending, dtypes=["int32"]), expected)


def test_argsort_descends_by_default(run_op):
    np.testing.assert_array_equal(run_op("argsort", x=np.float32([1, 3, 2]), dtypes=["int32"]), [1, 2, 0])


@pytest.mark.parametrize("ascending", [True, False])
def test_topk_orders_equal_values_by_index(run_op, ascending):
    x = np.float32([[2, 5, 5, 1, 2]])
    values, indices = run_op("topk", x=x, k=3, axis=1, ascending=ascending, dtypes=["float32", "int32"])
    np.testing.assert_array_equal(values, [[1, 2, 2]] if ascending else [[5, 5, 2]])
    np.testing.assert_array_equal(indices, [[3, 0, 4]] if ascending else [[1, 2, 0]])


def test_topk_of_unsigned_and_extreme_integers(run_op):
    lowest = -(2**31)
    values, _ = run_op("topk", x=np.int32([0, lowest, 2**31 - 1]), k=2, dtypes=["int32", "int32"])
    np.testing.assert_array_equal(values, [2**31 - 1, 0])
    values, indices = run_op(
        "topk", ios=17, x=np.uint8([0, 255, 7]), k=-1, output_indices_dtype="uint16", dtypes=["uint8", "uint16"]
    )
    np.testing.assert_array_equal(values, [255, 7, 0])
    assert indices.dtype == np.uint16


def test_topk_without_indices(run_op):
    actual = run_op("topk", ios=16, x=np.float32([[3, 1], [2, 4]]), k=1, axis=0, return_indices=False, sort=False)
    np.testing.assert_array_equal(actual, [[3, 4]])
