from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError

GEOMETRIES = [
    {},
    {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"strides": [2, 3], "pads": [0, 1, 1, 0]},
    {"strides": [2, 2], "ceil_mode": 1},
    {"strides": [2, 2], "ceil_mode": 1, "auto_pad": "VALID"},
    {"strides": [2, 2], "ceil_mode": 1, "auto_pad": "SAME_UPPER"},
    {"strides": [3, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"dilations": [2, 1], "strides": [1, 2], "pads": [1, 1, 1, 1]},
    {"dilations": [2, 2], "ceil_mode": 1, "strides": [2, 2]},
]


def image(rng):
    return rng.standard_normal((2, 3, 10, 9), dtype=np.float32)


@pytest.mark.parametrize("attributes", GEOMETRIES, ids=str)
def test_max_pool_agrees(agrees, rng, attributes):
    agrees("MaxPool", [image(rng)], kernel_shape=[3, 3], **attributes)


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize("attributes", GEOMETRIES, ids=str)
def test_positions_of_maxima_agree(agrees, rng, attributes, storage_order):
    outputs = ("float32", "int64")
    agrees("MaxPool", [image(rng)], outputs=outputs, kernel_shape=[3, 3], storage_order=storage_order, **attributes)


def test_first_of_equal_maxima_is_reported(lower):
    _, positions = lower("MaxPool", [np.ones((1, 1, 4), np.float32)], outputs=("float32", "int64"), kernel_shape=[3])
    np.testing.assert_array_equal(positions, [[[0, 1]]])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_integers_are_pooled(agrees, dtype):
    x = np.arange(-30, 30).astype(dtype).reshape(1, 1, 6, 10)
    agrees("MaxPool", [x], outputs=[np.dtype(dtype).name], kernel_shape=[2, 2], pads=[1, 1, 1, 1])


@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize("attributes", GEOMETRIES, ids=str)
def test_average_pool_agrees(agrees, rng, attributes, count_include_pad):
    agrees("AveragePool", [image(rng)], kernel_shape=[3, 3], count_include_pad=count_include_pad, **attributes)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("attributes", GEOMETRIES, ids=str)
def test_lp_pool_agrees(agrees, rng, attributes, p):
    agrees("LpPool", [image(rng)], kernel_shape=[3, 3], p=p, opset=18, **attributes)


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 5, 4), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pools_agree(agrees, rng, op_type, shape):
    agrees(op_type, [rng.standard_normal(shape, dtype=np.float32)], opset=21)


@pytest.mark.parametrize("output_shape", [None, [1, 2, 7, 7]])
def test_max_unpool_agrees(agrees, rng, output_shape):
    x = rng.standard_normal((1, 2, 3, 3), dtype=np.float32)
    positions = np.sort(rng.choice(72, 18, replace=False)).reshape(x.shape)
    shape = None if output_shape is None else np.array(output_shape)
    inputs = [x, positions, shape]
    agrees("MaxUnpool", inputs, fed=(0, 1), kernel_shape=[2, 2], strides=[2, 2], against="reference")


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_a_window_that_begins_just_behind_is_left_out(agrees, op_type):
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    agrees(op_type, [x], opset=19, kernel_shape=[2], strides=[4], pads=[0, 1], ceil_mode=1)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"kernel_shape": [0, 2]}, r"has windows of \[0, 2\]: the least is 1"),
        ({"kernel_shape": [2, 2], "strides": [1, 0]}, r"has strides of \[1, 0\]: the least is 1"),
        ({"kernel_shape": [2, 2], "strides": [1, 1, 1]}, r"has strides of \[1, 1, 1\] for 2 spatial dimensions"),
    ],
)
def test_windows_that_no_input_has_are_refused(lower, rng, attributes, reason):
    with pytest.raises(UnsupportedOpsError, match=reason):
        lower("MaxPool", [rng.standard_normal((1, 1, 4, 4)).astype(np.float32)], **attributes)


@pytest.mark.parametrize("operator", ["AveragePool", "LpPool", "MaxPool"])
def test_windows_larger_than_what_they_slide_over_are_refused(lower, operator):
    with pytest.raises(UnsupportedOpsError, match="a window of 4 is larger than the size 3: its output is empty"):
        lower(operator, [np.ones((1, 2, 6, 3), np.float32)], kernel_shape=[2, 4])


def test_a_larger_window_that_rounds_up_is_one(agrees, rng):
    agrees("MaxPool", [rng.standard_normal((1, 2, 2), dtype=np.float32)], kernel_shape=[3], strides=[2], ceil_mode=1)


def test_a_convolution_larger_than_what_it_slides_over_is_refused(lower):
    with pytest.raises(UnsupportedOpsError, match="a window of 3 is larger than the size 2"):
        lower("Conv", [np.ones((1, 2, 2), np.float32), np.ones((2, 2, 3), np.float32)])
