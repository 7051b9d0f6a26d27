from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from edgekit.errors import UnsupportedOpsError

IMAGE = np.random.default_rng(3).standard_normal((2, 3, 7, 10), dtype=np.float32)
SIZES = [(14, 20), (5, 3), (1, 1), (7, 25), (9, 10)]


def resized(size, mode, **options):
    return functional.interpolate(torch.tensor(IMAGE), size=size, mode=mode, **options)


@pytest.mark.parametrize(
    ("mode", "count", "expected"),
    [
        # The examples of the operation's documentation: where [0, 1] is sampled.
        ("UNALIGN_CORNERS", 5, [0, 0.1, 0.5, 0.9, 1]),
        ("STRICT_ALIGN_CORNERS", 5, [0, 0.25, 0.5, 0.75, 1]),
        ("ALIGN_CORNERS", 5, [0, 0.25, 0.5, 0.75, 1]),
        ("DEFAULT", 5, [0, 0.4, 0.8, 1, 1]),
        ("OFFSET_CORNERS", 5, [0.1, 0.3, 0.5, 0.7, 0.9]),
        ("UNALIGN_CORNERS", 6, [0, 0, 1 / 3, 2 / 3, 1, 1]),
        ("STRICT_ALIGN_CORNERS", 6, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        ("DEFAULT", 6, [0, 1 / 3, 2 / 3, 1, 1, 1]),
        ("OFFSET_CORNERS", 6, [1 / 12, 3 / 12, 5 / 12, 7 / 12, 9 / 12, 11 / 12]),
        ("STRICT_ALIGN_CORNERS", 1, [0]),
        ("ALIGN_CORNERS", 1, [0.5]),
    ],
)
def test_sampling_modes(run_op, mode, count, expected):
    x = np.array([[[0, 1]]], np.float32)
    inputs = {"x": x, "sampling_mode": mode}
    actual = run_op("resize_bilinear", **inputs, target_size_height=1, target_size_width=count)
    np.testing.assert_allclose(actual[0, 0], expected, atol=1e-6)
    actual = run_op("resize", **inputs, shape=[1, count], resized_dims=2, ios=17)
    np.testing.assert_allclose(actual[0, 0], expected, atol=1e-6)


@pytest.mark.parametrize(("mode", "align"), [("UNALIGN_CORNERS", False), ("STRICT_ALIGN_CORNERS", True)])
@pytest.mark.parametrize("size", SIZES)
def test_resize_bilinear_agrees_with_torch(run_op, mode, align, size):
    actual = run_op(
        "resize_bilinear", x=IMAGE, target_size_height=size[0], target_size_width=size[1], sampling_mode=mode
    )
    np.testing.assert_allclose(actual, resized(size, "bilinear", align_corners=align), atol=1e-5)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("factors", [(2, 3), (1.5, 2.55), (0.5, 0.75)])
def test_upsample_bilinear_agrees_with_torch(run_op, align, factors):
    expected = functional.interpolate(
        torch.tensor(IMAGE), scale_factor=factors, mode="bilinear", align_corners=align, recompute_scale_factor=True
    )
    actual = run_op(
        "upsample_bilinear", x=IMAGE, scale_factor_height=factors[0], scale_factor_width=factors[1], align_corners=align
    )
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_upsample_bilinear_without_half_pixel_centres(run_op):
    # The documentation's formula i * size / new size: 0, 1/3, 2/3, then the last element.
    x = np.array([[[1, 2]]], np.float32)
    inputs = {"x": x, "scale_factor_width": 3, "align_corners": False, "ios": 16}
    actual = run_op("upsample_bilinear", **inputs, half_pixel_centers=False)
    np.testing.assert_allclose(actual[0, 0], [1, 4 / 3, 5 / 3, 2, 2, 2], rtol=1e-6)


def test_upsample_bilinear_refuses_contradicting_grids(run_op):
    with pytest.raises(UnsupportedOpsError, match="half_pixel_centers"):
        run_op("upsample_bilinear", x=IMAGE, align_corners=True, half_pixel_centers=True, ios=16)


@pytest.mark.parametrize("factors", [(2, 3), (1.5, 2.55), (0.5, 0.75), (1, 1)])
def test_upsample_nearest_agrees_with_torch(run_op, factors):
    expected = functional.interpolate(
        torch.tensor(IMAGE), scale_factor=factors, mode="nearest", recompute_scale_factor=True
    )
    actual = run_op("upsample_nearest_neighbor", x=IMAGE, scale_factor_height=factors[0], scale_factor_width=factors[1])
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("size", SIZES)
def test_resize_nearest_agrees_with_torch(run_op, size):
    expected = resized(size, "nearest-exact")
    actual = run_op("resize_nearest_neighbor", x=IMAGE, target_size_height=size[0], target_size_width=size[1])
    np.testing.assert_array_equal(actual, expected)
    inputs = {"x": IMAGE, "shape": list(size), "resized_dims": 2, "interpolation_mode": "NEAREST_NEIGHBOR", "ios": 17}
    for mode in ("DEFAULT", "UNALIGN_CORNERS"):
        np.testing.assert_array_equal(run_op("resize", **inputs, sampling_mode=mode), expected)


def test_resize_takes_the_last_sizes_and_keeps_those_that_are_zero(run_op):
    # The examples of the operation's documentation.
    x = np.zeros((1, 2, 3, 4), np.float32)
    assert run_op("resize", x=x, shape=[1, 6, 8], resized_dims=2, ios=17).shape == (1, 2, 6, 8)
    assert run_op("resize", x=x, shape=[1, 0, 0], resized_dims=2, ios=17).shape == (1, 2, 3, 4)


def test_resize_of_three_dimensions_is_trilinear(run_op, rng):
    x = rng.standard_normal((1, 2, 3, 4, 5), dtype=np.float32)
    expected = functional.interpolate(torch.tensor(x), size=(6, 5, 2), mode="trilinear", align_corners=False)
    actual = run_op("resize", x=x, shape=[6, 5, 2], resized_dims=3, sampling_mode="UNALIGN_CORNERS", ios=17)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_resize_of_integers(run_op):
    x = np.array([[[1, 2**24 + 1]]], np.int32)
    inputs = {"x": x, "shape": [1, 4], "resized_dims": 2, "ios": 17, "dtypes": ["int32"]}
    actual = run_op("resize", **inputs, interpolation_mode="NEAREST_NEIGHBOR")
    np.testing.assert_array_equal(actual[0, 0], [1, 1, 2**24 + 1, 2**24 + 1])
    with pytest.raises(UnsupportedOpsError, match="integers"):
        run_op("resize", **inputs)
