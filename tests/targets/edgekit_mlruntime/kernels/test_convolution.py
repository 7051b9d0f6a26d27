from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
CONV_TRANSPOSE = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("groups", "stride", "dilation", "pad"), [(1, 1, 1, 0), (2, 2, 1, 1), (4, 1, 2, 2), (1, 3, 2, 1)]
)
def test_conv_agrees_with_torch(run_op, rng, rank, groups, stride, dilation, pad):
    x, weight, bias = normal(rng, 2, 4, *[9] * rank), normal(rng, 8, 4 // groups, *[3] * rank), normal(rng, 8)
    expected = CONV[rank](*map(torch.tensor, (x, weight, bias)), stride, pad, dilation, groups)
    actual = run_op(
        "conv", x=x, weight=weight, bias=bias, strides=[stride] * rank, dilations=[dilation] * rank, groups=groups,
        pad_type="custom", pad=[pad] * (2 * rank),
    )  # fmt: skip
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "pad_type", "before", "after"),
    [
        # ceil(size / stride) windows need (windows - 1) * stride + (kernel - 1) * dilation + 1 elements.
        (6, 3, 2, 1, "same", 0, 1),
        (6, 3, 2, 1, "same_lower", 1, 0),
        (5, 3, 2, 1, "same", 1, 1),
        (7, 4, 1, 1, "same", 1, 2),
        (7, 4, 1, 1, "same_lower", 2, 1),
        (7, 2, 1, 3, "same", 1, 2),
        (6, 1, 3, 1, "same", 0, 0),
    ],
)
def test_conv_pads_to_the_same_size(run_op, rng, size, kernel, stride, dilation, pad_type, before, after):
    x, weight = normal(rng, 1, 2, size, size), normal(rng, 3, 2, kernel, kernel)
    padded = functional.pad(torch.tensor(x), (before, after, before, after))
    expected = functional.conv2d(padded, torch.tensor(weight), None, stride, 0, dilation)
    actual = run_op("conv", x=x, weight=weight, strides=[stride] * 2, dilations=[dilation] * 2, pad_type=pad_type)
    assert actual.shape[-1] == -(-size // stride)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_conv_pads_each_side_by_its_own_amount(run_op, rng):
    x, weight = normal(rng, 1, 2, 5, 6), normal(rng, 3, 2, 3, 2)
    expected = functional.conv2d(functional.pad(torch.tensor(x), (3, 0, 1, 2)), torch.tensor(weight))
    actual = run_op("conv", x=x, weight=weight, pad_type="custom", pad=[1, 2, 3, 0])
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_conv_takes_weights_computed_at_run_time(one_operation, rng):
    x, bias = normal(rng, 1, 2, 5, 5), normal(rng, 3)
    conv = one_operation(
        "conv",
        {"x": x, "weight": normal(rng, 3, 2, 3, 3), "bias": bias},
        ios=17,
        fed=["x", "weight"],
        dtypes=["float32"],
    )
    for _ in range(2):
        weight = normal(rng, 3, 2, 3, 3)
        (actual,) = conv.run(x, weight)
        np.testing.assert_allclose(
            actual, functional.conv2d(*map(torch.tensor, (x, weight, bias))), rtol=1e-4, atol=1e-5
        )


def test_conv_follows_a_changing_input_size(one_operation, rng):
    weight = normal(rng, 3, 2, 3, 3)
    inputs = {"x": normal(rng, 1, 2, 1, 1), "weight": weight, "strides": [2, 2], "pad_type": "same"}
    conv = one_operation("conv", inputs, ios=15, fed=["x"], dtypes=["float32"])
    for size, pads in ((6, (0, 1, 0, 1)), (7, (1, 1, 1, 1)), (6, (0, 1, 0, 1))):
        x = normal(rng, 1, 2, size, size)
        (actual,) = conv.run(x)
        expected = functional.conv2d(functional.pad(torch.tensor(x), pads), torch.tensor(weight), stride=2)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_conv_of_an_empty_batch_is_empty(run_op, rng):
    assert run_op("conv", x=normal(rng, 0, 2, 5, 5), weight=normal(rng, 3, 2, 3, 3)).shape == (0, 3, 3, 3)


def test_conv_of_halves_rounds_its_result_once(run_op):
    # 2049 lies between the float16 numbers 2048 and 2050; summing in float16 would lose each of the ones.
    x = np.array([2048, 1, 1, 1], np.float16).reshape(1, 4, 1)
    weight = np.ones((1, 4, 1), np.float16)
    actual = run_op("conv", x=x, weight=weight, dtypes=["float16"])
    assert actual.item() == np.float16(2051)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("groups", "stride", "dilation", "pad"), [(1, 1, 1, 0), (2, 2, 1, 1), (4, 1, 2, 2), (1, 3, 2, 1)]
)
def test_conv_transpose_agrees_with_torch(run_op, rng, rank, groups, stride, dilation, pad):
    x, weight, bias = normal(rng, 2, 4, *[5] * rank), normal(rng, 4, 8 // groups, *[3] * rank), normal(rng, 8)
    tensors = map(torch.tensor, (x, weight, bias))
    expected = CONV_TRANSPOSE[rank](*tensors, stride, pad, 0, groups, dilation)
    actual = run_op(
        "conv_transpose", x=x, weight=weight, bias=bias, strides=[stride] * rank, dilations=[dilation] * rank,
        groups=groups, pad_type="custom", pad=[pad] * (2 * rank),
    )  # fmt: skip
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_conv_transpose_with_an_output_shape_extends_like_output_padding(run_op, rng):
    x, weight, bias = normal(rng, 1, 2, 4, 4), normal(rng, 2, 3, 3, 3), normal(rng, 3)
    expected = functional.conv_transpose2d(*map(torch.tensor, (x, weight, bias)), stride=2, padding=1, output_padding=1)
    actual = run_op(
        "conv_transpose", x=x, weight=weight, bias=bias, strides=[2, 2], pad_type="custom", pad=[1, 1, 1, 1],
        output_shape=list(expected.shape),
    )  # fmt: skip
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("pad_type", "first"), [("same", 0), ("same_lower", 1)])
def test_conv_transpose_crops_to_the_same_size(run_op, rng, pad_type, first):
    # (4 - 1) * 2 + 3 = 9 elements, of which 4 * 2 stay.
    x, weight = normal(rng, 1, 2, 4), normal(rng, 2, 3, 3)
    full = functional.conv_transpose1d(torch.tensor(x), torch.tensor(weight), stride=2)
    actual = run_op("conv_transpose", x=x, weight=weight, strides=[2], pad_type=pad_type)
    np.testing.assert_allclose(actual, full[:, :, first : first + 8], rtol=1e-4, atol=1e-5)


def test_conv_transpose_fills_what_no_window_reaches_with_the_bias(run_op):
    # Elements at 0 and 3; "same" asks for 2 * 3 elements, of which the last two get nothing.
    x, weight, bias = np.array([[[1, 2]]], np.float32), np.full((1, 1, 1), 10, np.float32), np.array([0.5], np.float32)
    actual = run_op("conv_transpose", x=x, weight=weight, bias=bias, strides=[3], pad_type="same")
    np.testing.assert_array_equal(actual, [[[10.5, 0.5, 0.5, 20.5, 0.5, 0.5]]])
