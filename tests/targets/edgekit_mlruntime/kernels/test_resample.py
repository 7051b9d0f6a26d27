from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from edgekit.errors import UnsupportedOpsError

IMAGES = np.random.default_rng(5).standard_normal((2, 3, 5, 8), dtype=np.float32)
# Also far outside of the image, where reflections go back and forth.
PLACES = np.random.default_rng(6).uniform(-4, 4, (2, 6, 7, 2)).astype(np.float32)


def place(mode, align):
    """The places in another coordinate mode."""
    if mode == "normalized_minus_one_to_one":
        return PLACES
    halves = (PLACES + 1) / 2
    if mode == "normalized_zero_to_one":
        return halves
    sizes = np.array([8, 5], np.float32)
    return halves * (sizes - 1) if align else halves * sizes - np.float32(0.5)


@pytest.mark.parametrize("mode", ["normalized_minus_one_to_one", "normalized_zero_to_one", "unnormalized"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("sampling", ["bilinear", "nearest"])
def test_resample_agrees_with_torch(run_op, mode, align, padding, sampling):
    expected = functional.grid_sample(torch.tensor(IMAGES), torch.tensor(PLACES), sampling, padding, align)
    # PyTorch mirrors at the outer edges where corners are not aligned.
    padding = {"zeros": "constant", "reflection": "reflection" if align else "symmetric"}.get(padding, padding)
    actual = run_op(
        "resample", x=IMAGES, coordinates=place(mode, align), sampling_mode=sampling, padding_mode=padding,
        padding_value=0.0, coordinates_mode=mode, align_corners=align,
    )  # fmt: skip
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        # The rows of the operation's documentation, for the elements 1 2 3.
        ("constant", [7, 7, 7, 1, 2, 3, 7, 7, 7]),
        ("border", [1, 1, 1, 1, 2, 3, 3, 3, 3]),
        ("reflection", [2, 3, 2, 1, 2, 3, 2, 1, 2]),
        ("symmetric", [3, 2, 1, 1, 2, 3, 3, 2, 1]),
    ],
)
@pytest.mark.parametrize("sampling", ["bilinear", "nearest"])
def test_padding_modes(run_op, padding, expected, sampling):
    places = np.stack([np.arange(-3, 6), np.zeros(9, int)], axis=-1).astype(np.int32).reshape(1, 1, 9, 2)
    actual = run_op(
        "resample", x=np.array([1, 2, 3], np.float32).reshape(1, 1, 1, 3), coordinates=places, sampling_mode=sampling,
        padding_mode=padding, padding_value=7.0, coordinates_mode="unnormalized", align_corners=True,
    )  # fmt: skip
    np.testing.assert_array_equal(actual.reshape(-1), expected)


def test_constant_padding_is_interpolated_with_the_edge(run_op):
    places = np.array([-0.25, 0], np.float32).reshape(1, 1, 1, 2)
    actual = run_op(
        "resample", x=np.full((1, 1, 1, 1), 10, np.float32), coordinates=places, sampling_mode="bilinear",
        padding_mode="constant", padding_value=2.0, coordinates_mode="unnormalized", align_corners=True,
    )  # fmt: skip
    assert actual.item() == 8


def affine_inputs(matrix, height, width):
    return {
        "x": IMAGES, "transform_matrix": matrix, "output_height": height, "output_width": width,
        "sampling_mode": "bilinear", "padding_mode": "constant", "padding_value": 0.0,
        "coordinates_mode": "normalized_minus_one_to_one", "align_corners": True,
    }  # fmt: skip


@pytest.mark.parametrize("unusual", [np.nan, np.inf, 1e30])
def test_places_that_are_no_numbers_make_no_numbers_of_these_pixels_alone(run_op, unusual):
    places = PLACES.copy()
    places[0, 1, 2] = unusual
    actual, usual = (
        run_op(
            "resample", x=IMAGES, coordinates=each, sampling_mode="bilinear", padding_mode="constant",
            padding_value=0.0, coordinates_mode="normalized_minus_one_to_one", align_corners=True,
        ) for each in (places, PLACES)
    )  # fmt: skip
    assert not np.any(actual[0, :, 1, 2]) or np.all(np.isnan(actual[0, :, 1, 2]))
    actual[0, :, 1, 2] = usual[0, :, 1, 2]
    np.testing.assert_array_equal(actual, usual)


@pytest.mark.filterwarnings("ignore:Since version 1.3.0")  # what PyTorch makes of one row is what is meant here
@pytest.mark.parametrize("matrices", [1, 2])
@pytest.mark.parametrize(("height", "width"), [(5, 8), (3, 9), (1, 4)])
def test_affine_agrees_with_torch(run_op, rng, matrices, height, width):
    matrix = rng.uniform(-1.5, 1.5, (matrices, 6)).astype(np.float32)
    maps = torch.tensor(matrix).reshape(-1, 2, 3).expand(2, 2, 3)
    grid = functional.affine_grid(maps, [2, 3, height, width], align_corners=True)
    expected = functional.grid_sample(torch.tensor(IMAGES), grid, align_corners=True)
    actual = run_op("affine", **affine_inputs(matrix, height, width))
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


def test_affine_refuses_what_is_not_documented(run_op):
    inputs = {**affine_inputs(np.zeros((1, 6), np.float32), 2, 2), "align_corners": False}
    with pytest.raises(UnsupportedOpsError, match="documented"):
        run_op("affine", **inputs)
