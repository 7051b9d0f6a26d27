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


@pytest.mark.parametrize("opset", [10, 16])
def test_roi_align_of_one_image_by_the_defaults_of_each_version(agrees, rng, opset):
    x = rng.uniform(0, 1, (1, 2, 6, 7)).astype(np.float32)
    settings = {"output_height": 2, "output_width": 2, "sampling_ratio": 3}
    inputs = [x, REGIONS[:2], np.zeros(2, np.int64)]
    agrees("RoiAlign", inputs, fed=(0, 1, 2), opset=opset, **settings)


def test_roi_align_without_a_number_of_samples_is_refused(lower, rng):
    x = rng.uniform(0, 1, (1, 2, 6, 7)).astype(np.float32)
    with pytest.raises(UnsupportedOpsError, match="number of samples"):
        lower("RoiAlign", [x, REGIONS[:1], np.zeros(1, np.int64)], fed=(0, 1))


def test_max_roi_pool(agrees, rng):
    x = rng.standard_normal((2, 3, 9, 8)).astype(np.float32)
    rois = np.concatenate([IMAGES[:, None].astype(np.float32), REGIONS], axis=1)
    agrees("MaxRoiPool", [x, rois], fed=(0, 1), opset=12, pooled_shape=[3, 2], spatial_scale=0.5)
