from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError

TRANSFORMATIONS = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"]
SIZES = [[1, 2, 12, 10], [1, 2, 7, 13], [1, 2, 4, 3], [1, 2, 1, 5]]


def image(rng):
    return rng.standard_normal((1, 2, 6, 5), dtype=np.float32)


def by_sizes(x, sizes):
    return [x, None, None, np.array(sizes, np.int64)]


def by_scales(x, scales):
    return [x, None, np.array(scales, np.float32)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("nearest_mode", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("transformation", TRANSFORMATIONS[:4])
def test_nearest_agrees(agrees, rng, sizes, nearest_mode, transformation):
    modes = {"nearest_mode": nearest_mode, "coordinate_transformation_mode": transformation}
    agrees("Resize", by_sizes(image(rng), sizes), mode="nearest", **modes)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_linear_agrees(agrees, rng, sizes, transformation):
    agrees("Resize", by_sizes(image(rng), sizes), mode="linear", coordinate_transformation_mode=transformation)


@pytest.mark.parametrize("exclude_outside", [0, 1])
@pytest.mark.parametrize("sizes", SIZES[:3], ids=str)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_cubic_agrees(agrees, rng, sizes, transformation, exclude_outside):
    modes = {"coordinate_transformation_mode": transformation, "exclude_outside": exclude_outside}
    agrees("Resize", by_sizes(image(rng), sizes), mode="cubic", cubic_coeff_a=-0.5, **modes)


@pytest.mark.parametrize("scales", [[1, 1, 2, 1], [1, 1, 1, 1.7]], ids=str)
@pytest.mark.parametrize(
    "modes",
    [{"mode": "nearest", "nearest_mode": "ceil"}, {"mode": "nearest", "nearest_mode": "floor"}, {"mode": "linear"}],
    ids=str,
)
def test_axes_that_keep_their_size_keep_their_elements(agrees, rng, modes, scales):
    """By its formula alone, ``tf_half_pixel_for_nn`` shifts them by half an element, channels too."""
    inputs = [image(rng), np.zeros(8, np.float32), np.array(scales, np.float32)]
    agrees("Resize", inputs, opset=11, coordinate_transformation_mode="tf_half_pixel_for_nn", **modes)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", [[1, 1, 0.6, 0.4], [1, 1, 1.5, 0.3], [1, 1, 2.3, 1.7]], ids=str)
def test_antialias_agrees(agrees, rng, mode, scales):
    agrees("Resize", by_scales(image(rng), scales), mode=mode, antialias=1, against="reference")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_region_with_extrapolation_agrees(agrees, rng, mode):
    roi = np.array([0, 0, 0.3, -0.2, 1, 1, 1.2, 0.7], np.float32)
    inputs = [image(rng), roi, None, np.array([1, 2, 5, 8], np.int64)]
    modes = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.5}
    agrees("Resize", inputs, mode=mode, **modes)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_policies_and_axes_agree(agrees, rng, policy):
    inputs = by_sizes(image(rng), [9, 11])
    agrees("Resize", inputs, mode="linear", axes=[3, 2], keep_aspect_ratio_policy=policy, against="reference")


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (1, 2, 3, 4, 2)])
def test_every_axis_of_any_rank_can_be_resized(agrees, rng, mode, shape):
    x = rng.standard_normal(shape, dtype=np.float32)
    sizes = [2 * size + 1 for size in shape]
    agrees("Resize", by_sizes(x, sizes), mode=mode, against="reference")


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [9, 10])
def test_upsampling_of_old_opsets_agrees(agrees, rng, mode, opset):
    inputs = [image(rng), np.array([1, 1, 2, 3], np.float32)]
    agrees("Upsample" if opset == 9 else "Resize", inputs, opset=opset, mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[0.6, 0.6], [0.75, 1.5], [0.5, 0.3]])
def test_downsampling_of_operator_set_ten_agrees(agrees, rng, mode, scales):
    agrees("Resize", [image(rng), np.float32([1, 1, *scales])], opset=10, mode=mode)


def test_integers_keep_their_nearest_neighbours(agrees):
    x = np.arange(12, dtype=np.int32).reshape(1, 1, 3, 4)
    agrees(
        "Resize",
        by_scales(x, [1, 1, 2, 2]),
        outputs=["int32"],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
    )


def test_computed_sizes_are_refused(lower, rng):
    with pytest.raises(UnsupportedOpsError, match="sizes is computed at run time"):
        lower("Resize", by_sizes(image(rng), [1, 2, 3, 4]), fed=(0, 3), mode="cubic", antialias=1)
