from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import map_coordinates

IMAGES = np.random.default_rng(5).standard_normal((2, 3, 6, 8), dtype=np.float32)


def sampled(image, rows, columns, outside=0.0):
    """Bilinear interpolation of [C, H, W] at the crossings of rows and columns, by SciPy."""
    grid = np.meshgrid(rows, columns, indexing="ij")
    planes = [map_coordinates(plane.astype(np.float64), grid, order=1, mode="nearest") for plane in image]
    inside = [(places >= 0) & (places <= size - 1) for places, size in zip(grid, image.shape[1:], strict=True)]
    return np.where(inside[0] & inside[1], np.stack(planes), outside)


def test_crop_leaves_out_rows_and_columns(run_op):
    actual = run_op("crop", x=IMAGES, crop_height=[1, 2], crop_width=[0, 3])
    np.testing.assert_array_equal(actual, IMAGES[:, :, 1:4, :5])


@pytest.mark.parametrize(
    ("mode", "rows", "columns"),
    [
        # Three rows and two columns of the box from row 1 to 4 and from column 2 to 5: the documentation's formulas for
        # an interval of 4 elements, moved to where the box starts.
        ("STRICT_ALIGN_CORNERS", [1, 2.5, 4], [2, 5]),
        ("ALIGN_CORNERS", [1, 2.5, 4], [2, 5]),
        ("DEFAULT", [1, 1 + 4 / 3, 1 + 8 / 3], [2, 4]),
        ("OFFSET_CORNERS", [1.5, 2.5, 3.5], [2.75, 4.25]),
        ("UNALIGN_CORNERS", [1 + 1 / 6, 2.5, 4 - 1 / 6], [2.5, 4.5]),
    ],
)
def test_sampling_modes_within_a_box(run_op, mode, rows, columns):
    inputs = {"x": IMAGES, "target_height": 3, "target_width": 2, "sampling_mode": mode}
    expected = [sampled(image, rows, columns) for image in IMAGES]
    roi = np.array([1, 2, 4, 5], np.float32).reshape(1, 1, 4, 1, 1)
    np.testing.assert_allclose(run_op("crop_resize", **inputs, roi=roi)[0], expected, atol=1e-5)
    boxes = np.array([[1, 2, 4, 5]] * 2, np.float32)
    np.testing.assert_allclose(run_op("crop_resize", **inputs, boxes=boxes, ios=17), expected, atol=1e-5)


def test_offset_corners_of_a_box_of_less_than_a_step(run_op):
    """The documentation's ``delta = max(1, X - 1) / count``, with X - 1 = 0.5: points 0.25 and 0.75, limited to 0.5."""
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 1, 6)
    actual = run_op(
        "crop_resize", x=x, boxes=np.float32([[0, 2, 0, 2.5]]), target_width=2, sampling_mode="OFFSET_CORNERS", ios=17
    )
    np.testing.assert_array_equal(actual, [[[[2.25, 2.5]]]])


@pytest.mark.parametrize(
    ("mode", "box"),
    [
        ("CORNERS_HEIGHT_FIRST", [1, 2, 4, 5]),
        ("CORNERS_WIDTH_FIRST", [2, 1, 5, 4]),
        ("CENTER_SIZE_HEIGHT_FIRST", [2.5, 3.5, 3, 3]),
        ("CENTER_SIZE_WIDTH_FIRST", [3.5, 2.5, 3, 3]),
    ],
)
def test_box_coordinates(run_op, mode, box):
    actual = run_op(
        "crop_resize", x=IMAGES, boxes=np.array([box], np.float32), box_indices=[1], target_height=4, target_width=4,
        box_coordinate_mode=mode, sampling_mode="STRICT_ALIGN_CORNERS", ios=17,
    )  # fmt: skip
    np.testing.assert_allclose(actual[0], IMAGES[1, :, 1:5, 2:6], atol=1e-5)


def test_normalized_and_scaled_coordinates(run_op):
    inputs = {"x": IMAGES, "target_height": 2, "target_width": 2, "sampling_mode": "ALIGN_CORNERS"}
    expected = IMAGES[:1][:, :, [0, 5]][..., [0, 7]]
    roi = np.array([0, 0, 0, 1, 1], np.float32).reshape(1, 1, 5, 1, 1)
    np.testing.assert_allclose(
        run_op("crop_resize", **inputs, roi=roi, normalized_coordinates=True)[0], expected, atol=1e-5
    )
    roi = np.array([0, 0, 0, 20, 28], np.float32).reshape(1, 1, 5, 1, 1)
    np.testing.assert_allclose(run_op("crop_resize", **inputs, roi=roi, spatial_scale=0.25)[0], expected, atol=1e-5)


def test_points_outside_of_the_image_are_padded(run_op):
    boxes = np.array([[-2, 3, 2, 9], [4, 7, 0, 1]], np.float32)
    actual = run_op(
        "crop_resize", x=IMAGES, boxes=boxes, box_indices=[1, 0], target_height=3, target_width=3, pad_value=9.0,
        sampling_mode="STRICT_ALIGN_CORNERS", ios=17,
    )  # fmt: skip
    np.testing.assert_allclose(actual[0], sampled(IMAGES[1], [-2, 0, 2], [3, 6, 9], 9.0), atol=1e-5)
    np.testing.assert_allclose(actual[1], sampled(IMAGES[0], [4, 2, 0], [7, 4, 1]), atol=1e-5)


def test_one_point_lies_in_the_middle_where_corners_are_aligned_loosely(run_op):
    boxes = np.array([[1, 2, 4, 5]], np.float32)
    inputs = {"x": IMAGES, "boxes": boxes, "ios": 17}
    actual = run_op("crop_resize", **inputs, sampling_mode="ALIGN_CORNERS")
    np.testing.assert_allclose(actual[0], sampled(IMAGES[0], [2.5], [3.5]), atol=1e-5)
    actual = run_op("crop_resize", **inputs, sampling_mode="STRICT_ALIGN_CORNERS")
    np.testing.assert_allclose(actual[0], sampled(IMAGES[0], [1], [2]), atol=1e-5)
