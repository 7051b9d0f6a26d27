from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

MAX = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
AVG = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
GEOMETRIES = [(2, 2, 0, False), (3, 2, 1, False), (3, 2, 1, True), (3, 2, 0, True), (2, 1, 1, False), (5, 3, 2, True)]


def pool_inputs(rng, rank, kernel, stride, pad, ceil_mode):
    x = rng.standard_normal((2, 3, *[10] * rank), dtype=np.float32)
    return x, {
        "kernel_sizes": [kernel] * rank,
        "strides": [stride] * rank,
        "pad_type": "custom",
        "pad": [pad] * (2 * rank),
        "ceil_mode": ceil_mode,
    }


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "stride", "pad", "ceil_mode"), GEOMETRIES)
def test_max_pool_agrees_with_torch(run_op, rng, rank, kernel, stride, pad, ceil_mode):
    x, inputs = pool_inputs(rng, rank, kernel, stride, pad, ceil_mode)
    expected = MAX[rank](torch.tensor(x), kernel, stride, pad, ceil_mode=ceil_mode)
    np.testing.assert_array_equal(run_op("max_pool", x=x, **inputs), expected)


@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "stride", "pad", "ceil_mode"), GEOMETRIES)
def test_avg_pool_agrees_with_torch(run_op, rng, rank, kernel, stride, pad, ceil_mode, exclude):
    x, inputs = pool_inputs(rng, rank, kernel, stride, pad, ceil_mode)
    expected = AVG[rank](torch.tensor(x), kernel, stride, pad, ceil_mode, not exclude)
    actual = run_op("avg_pool", x=x, exclude_padding_from_average=exclude, **inputs)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_a_window_that_would_begin_just_behind_the_input_is_left_out(run_op, rng):
    """Rounding up gives a sixth window, which would hold nothing but padding: PyTorch has five."""
    x = rng.standard_normal((1, 2, 9), dtype=np.float32)
    inputs = {"kernel_sizes": [2], "strides": [2], "pad_type": "custom", "pad": [1, 1], "ceil_mode": True}
    np.testing.assert_array_equal(run_op("max_pool", x=x, **inputs), MAX[1](torch.tensor(x), 2, 2, 1, ceil_mode=True))
    np.testing.assert_allclose(run_op("avg_pool", x=x, **inputs), AVG[1](torch.tensor(x), 2, 2, 1, True), rtol=1e-6)


@pytest.mark.parametrize("rank", [1, 2])
def test_l2_pool_is_the_root_of_the_sum_of_squares(run_op, rng, rank):
    x = rng.standard_normal((2, 3, *[8] * rank), dtype=np.float32)
    expected = np.sqrt(AVG[rank](torch.tensor(x) ** 2, 2, 2).numpy() * 2**rank)
    actual = run_op("l2_pool", x=x, kernel_sizes=[2] * rank, strides=[2] * rank, pad_type="valid")
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("pad_type", "exclude", "expected"),
    [
        # Windows of 3 with stride 2 over six elements need one element of padding.
        ("same", False, [2, 4, 11 / 3]),
        ("same", True, [2, 4, 11 / 2]),
        ("same_lower", False, [1, 3, 5]),
        ("same_lower", True, [1.5, 3, 5]),
    ],
)
def test_avg_pool_pads_to_the_same_size(run_op, pad_type, exclude, expected):
    x = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 6)
    actual = run_op(
        "avg_pool", x=x, kernel_sizes=[3], strides=[2], pad_type=pad_type, exclude_padding_from_average=exclude
    )
    np.testing.assert_allclose(actual[0, 0], expected, rtol=1e-6)


def test_padding_may_be_as_wide_as_the_window(run_op):
    x = np.array([[[-1, -2, -3, -4]]], np.float32)
    inputs = {"x": x, "kernel_sizes": [2], "strides": [1], "pad_type": "custom", "pad": [2, 1]}
    lowest = np.finfo(np.float32).min
    np.testing.assert_array_equal(run_op("max_pool", **inputs)[0, 0], [lowest, -1, -1, -2, -3, -4])
    np.testing.assert_array_equal(run_op("avg_pool", **inputs)[0, 0], [0, -0.5, -1.5, -2.5, -3.5, -2])


def test_padding_can_differ_between_the_sides(run_op):
    x = np.array([[[1, 2, 3, 4]]], np.float32)
    inputs = {"x": x, "kernel_sizes": [2], "strides": [2], "pad_type": "custom", "pad": [0, 1]}
    np.testing.assert_array_equal(run_op("max_pool", **inputs)[0, 0], [2, 4])
    inputs["pad"] = [1, 1]
    np.testing.assert_array_equal(run_op("max_pool", **inputs)[0, 0], [1, 3, 4])


def test_strides_default_to_one(run_op):
    x = np.array([[[1, 3, 2]]], np.float32)
    np.testing.assert_array_equal(run_op("max_pool", x=x, kernel_sizes=[2], pad_type="valid")[0, 0], [3, 3])
