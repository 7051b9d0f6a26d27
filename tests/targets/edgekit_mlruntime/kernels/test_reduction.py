from __future__ import annotations

import numpy as np
import pytest
import torch

TORCH = {
    "reduce_l1_norm": lambda x, axes, keep: x.abs().sum(axes, keep),
    "reduce_l2_norm": lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep),
    "reduce_log_sum": lambda x, axes, keep: x.sum(axes, keep).log(),
    "reduce_log_sum_exp": torch.logsumexp,
    "reduce_max": torch.amax,
    "reduce_mean": torch.mean,
    "reduce_min": torch.amin,
    "reduce_sum": torch.sum,
    "reduce_sum_square": lambda x, axes, keep: x.square().sum(axes, keep),
}


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("axes", [(1,), (0, 2), (-1, -2)])
@pytest.mark.parametrize("keep_dims", [True, False])
def test_agrees_with_torch_in_double_precision(run_op, rng, name, axes, keep_dims):
    x = rng.uniform(0.1, 3, (3, 4, 5)).astype(np.float32)
    expected = TORCH[name](torch.tensor(x).double(), axes, keep_dims)
    np.testing.assert_allclose(run_op(name, x=x, axes=list(axes), keep_dims=keep_dims), expected, rtol=1e-5)


@pytest.mark.parametrize("name", [*TORCH, "reduce_prod"])
def test_reduces_all_axes_to_a_scalar_by_default(run_op, name):
    assert run_op(name, x=np.ones((2, 3), np.float32)).shape == ()


def test_product(run_op):
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(run_op("reduce_prod", x=x, axes=[1]), [6, 120])


def test_log_sum_exp_neither_overflows_nor_underflows(run_op):
    x = np.float32([[1000, 1000], [-1000, -1000], [-np.inf, -np.inf], [np.inf, 0]])
    actual = run_op("reduce_log_sum_exp", x=x, axes=[1])
    np.testing.assert_allclose(actual, [1000 + np.log(2), -1000 + np.log(2), -np.inf, np.inf], rtol=1e-6)


def test_integer_sums_wrap_around_and_means_are_truncated(run_op):
    assert run_op("reduce_sum", x=np.int32([2**31 - 1, 1]), dtypes=["int32"]) == -(2**31)
    assert run_op("reduce_mean", x=np.int32([-1, -2]), dtypes=["int32"]) == -1


@pytest.mark.parametrize(("name", "expected"), [("reduce_argmax", [1, 0]), ("reduce_argmin", [0, 2])])
def test_index_of_the_first_extreme_value(run_op, name, expected):
    x = np.float32([[0, 7, 7], [9, 5, 5 - 1]])
    actual = run_op(name, x=x, axis=-1, dtypes=["int32"])
    assert actual.dtype == np.int32
    np.testing.assert_array_equal(actual, expected)
    assert run_op(name, x=x, axis=0, keep_dims=True, dtypes=["int32"]).shape == (1, 3)


def test_index_in_the_declared_type(run_op):
    actual = run_op("reduce_argmax", ios=17, x=np.float32([1, 2]), axis=0, output_dtype="uint16", dtypes=["uint16"])
    assert actual.dtype == np.uint16
