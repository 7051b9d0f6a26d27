from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError

REGIONS = np.array([[0.5, 1, 6.2, 7.9], [-3, -2, 4, 3], [5, 5, 5.2, 5.1], [2, 3, 30, 40]], np.float32)
IMAGES = np.array([0, 1, 1, 0], np.int64)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
def test_roi_align(agrees, rng, mode, transformation):
    x = rng.uniform(0, 1, (2, 3, 9, 8)).astype(np.float32)
    agrees(
        "RoiAlign",
        [x, REGIONS, IMAGES],
        fed=(0, 1),
        against="reference",
        mode=mode,
        coordinate_transformation_mode=transformation,
        output_height=3,
        output_width=2,
        sampling_ratio=2,
        spatial_scale=0.75,
    )


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align_of_one_row(agrees, rng, mode):
    x = rng.uniform(0, 1, (2, 3, 1, 8)).astype(np.float32)
    settings = {"output_height": 2, "output_width": 3, "sampling_ratio": 2}
    agrees("RoiAlign", [x, REGIONS, IMAGES], fed=(0, 1), against="reference", mode=mode, **settings)


@pytest.mark.parametrize("opset", [10, 16])
def test_roi_align_of_one_image_by_the_defaults_of_each_version(agrees, rng, opset):
    x = rng.uniform(0, 1, (1, 2, 6, 7)).astype(np.float32)
    settings = {"output_height": 2, "output_width": 2, "sampling_ratio": 3}
    inputs = [x, REGIONS[:2], np.zeros(2, np.int64)]
    agrees("RoiAlign", inputs, fed=(0, 1, 2), opset=opset, **settings)


@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("scale", [1.0, 0.37])
def test_roi_align_with_as_many_samples_as_elements(agrees, rng, transformation, scale):
    """Regions within the picture, over its borders, far larger than it, of no extent, and turned over."""
    others = np.array([[1, 1, 1, 5], [6, 6, 2, 3], [-40, -30, 60, 50], [0, 0, 24, 27], [20, 20, 30, 30]], np.float32)
    regions = np.concatenate([REGIONS, others])
    images = np.array([0, 1, 1, 0, 1, 0, 1, 0, 1], np.int64)
    x = rng.uniform(0, 1, (2, 3, 9, 8)).astype(np.float32)
    settings = {"coordinate_transformation_mode": transformation, "spatial_scale": scale}
    agrees("RoiAlign", [x, regions, images], fed=(0, 1), opset=16, output_height=3, output_width=2, **settings)


def test_roi_align_of_many_random_regions(agrees, rng):
    """As the heads of Mask R-CNN that Detectron2 and MMDetection export have them."""
    x = rng.standard_normal((1, 4, 25, 19)).astype(np.float32)
    corners = rng.uniform(0, 300, (64, 2, 2)).astype(np.float32)
    regions = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    settings = {"output_height": 7, "output_width": 7, "spatial_scale": 1 / 16, "sampling_ratio": 0}
    agrees("RoiAlign", [x, regions, np.zeros(64, np.int64)], fed=(0, 1), opset=16, **settings)


def test_the_greatest_of_an_unknown_number_of_samples_is_refused(lower, rng):
    x = rng.uniform(0, 1, (1, 2, 6, 7)).astype(np.float32)
    with pytest.raises(UnsupportedOpsError, match="number of samples"):
        lower("RoiAlign", [x, REGIONS[:1], np.zeros(1, np.int64)], fed=(0, 1), mode="max")


def test_max_roi_pool(agrees, rng):
    x = rng.standard_normal((2, 3, 9, 8)).astype(np.float32)
    rois = np.concatenate([IMAGES[:, None].astype(np.float32), REGIONS], axis=1)
    agrees("MaxRoiPool", [x, rois], fed=(0, 1), opset=12, pooled_shape=[3, 2], spatial_scale=0.5)
