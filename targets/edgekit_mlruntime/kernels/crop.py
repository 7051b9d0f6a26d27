"""Cropping of images, and resizing of boxes within images."""

from __future__ import annotations

import numpy as np

from edgekit_mlruntime.kernels.grids import interpolate, sampling_points
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


@kernel("crop", raw=True)
def crop(call: Call, x: Array, crop_height: Ints, crop_width: Ints) -> Array:
    """Remove the given numbers of first and last rows and columns, the last two axes."""
    height, width = x.shape[-2:]
    return x[..., crop_height[0] : height - crop_height[1], crop_width[0] : width - crop_width[1]]


@kernel("crop_resize")
def crop_resize_by_roi(
    call: Call,
    x: Array,
    roi: Array,
    target_height: int = 1,
    target_width: int = 1,
    normalized_coordinates: bool = False,
    spatial_scale: float = 1.0,
    box_coordinate_mode: str = "CORNERS_HEIGHT_FIRST",
    sampling_mode: str = "DEFAULT",
    pad_value: float = 0.0,
) -> Array:
    """Cut boxes out of images and resize them with bilinear interpolation.

    Args:
        call: The operation.
        x: [B, C, H, W].
        roi: [N, 1, 4, 1, 1]: boxes to be cut out of every image; or [N, 1, 5, 1, 1]: for each box, the index of its
            image and the box.
        target_height: Height of the results.
        target_width: Width of the results.
        normalized_coordinates: Whether the coordinate 1 is the last row or column.
        spatial_scale: Multiplies the coordinates.
        box_coordinate_mode: Order and meaning of the coordinates.
        sampling_mode: The grid within a box, as in ``resize_bilinear``.
        pad_value: Value of points outside of the image (iOS 16).

    Returns:
        [N, B, C, target_height, target_width], or [N, 1, …] if each box names its image.
    """
    table = roi.reshape(roi.shape[0], -1)
    boxes = _corners(table[:, -4:] * np.float64(spatial_scale), box_coordinate_mode)
    grids = _grids(x, boxes, (target_height, target_width), normalized_coordinates, sampling_mode)
    has_index = table.shape[1] == 5
    images = [x[index : index + 1] for index in table[:, 0].astype(int)] if has_index else [x] * len(table)
    return np.stack([_sample(image, *grid, pad_value) for image, grid in zip(images, grids, strict=True)])


@kernel("crop_resize", opset=17)
def crop_resize(
    call: Call,
    x: Array,
    boxes: Array,
    box_indices: Ints | None = None,
    target_height: int = 1,
    target_width: int = 1,
    normalized_coordinates: bool = False,
    spatial_scale: float = 1.0,
    box_coordinate_mode: str = "CORNERS_HEIGHT_FIRST",
    sampling_mode: str = "DEFAULT",
    pad_value: float = 0.0,
) -> Array:
    """``crop_resize_by_roi`` with ``boxes`` [N, 4]; box i is cut out of image ``box_indices[i]`` (default: image i).

    Returns:
        [N, C, target_height, target_width].
    """
    corners = _corners(boxes * np.float64(spatial_scale), box_coordinate_mode)
    grids = _grids(x, corners, (target_height, target_width), normalized_coordinates, sampling_mode)
    indices = range(len(boxes)) if box_indices is None else box_indices
    return np.stack([_sample(x[index], *grid, pad_value) for index, grid in zip(indices, grids, strict=True)])


_BOX_MODES = {
    "CORNERS_HEIGHT_FIRST": (False, False),
    "CORNERS_WIDTH_FIRST": (False, True),
    "CENTER_SIZE_HEIGHT_FIRST": (True, False),
    "CENTER_SIZE_WIDTH_FIRST": (True, True),
}
"""For each ``box_coordinate_mode``: whether a box is center and size, and whether width comes before height."""


def _corners(boxes: Array, mode: str) -> Array:
    """Convert boxes [N, 4] to first row, first column, last row, last column."""
    centred, width_first = _BOX_MODES[mode]
    if width_first:
        boxes = boxes[:, [1, 0, 3, 2]]
    if not centred:
        return boxes
    centres, halves = boxes[:, :2], boxes[:, 2:] / 2
    return np.concatenate([centres - halves, centres + halves], axis=1)


def _grids(
    x: Array, corners: Array, target: tuple[int, int], normalized: bool, sampling: str
) -> list[tuple[Array, Array]]:
    """The rows and columns at which each box is sampled."""
    last = np.array([x.shape[2] - 1, x.shape[3] - 1], np.float64)
    starts, ends = corners[:, :2], corners[:, 2:]
    if normalized:
        starts, ends = starts * last, ends * last
    if sampling == "UNALIGN_CORNERS":
        # Apple's own test of this mode has a box beyond the image, and expects the whole image.
        beyond = ((np.minimum(starts, ends) < 0) | (np.maximum(starts, ends) > last)).any(axis=1, keepdims=True)
        starts, ends = np.where(beyond, 0, starts), np.where(beyond, last, ends)
    rows, columns = (sampling_points(sampling, starts[:, i], ends[:, i], target[i]) for i in range(2))
    return list(zip(rows, columns, strict=True))


def _sample(x: Array, rows: Array, columns: Array, pad_value: float) -> Array:
    """Bilinear interpolation of the last two axes at the crossings of rows and columns."""
    height, width = x.shape[-2:]
    result = interpolate(x, -2, np.clip(rows, 0, height - 1))
    result = interpolate(result, -1, np.clip(columns, 0, width - 1))
    result[..., (rows < 0) | (rows > height - 1), :] = pad_value
    result[..., (columns < 0) | (columns > width - 1)] = pad_value
    return result
