from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [[0, 1, 2, 0, 2, 0], [1, 0, 0, 2, 0, 1], [0, 0, 2, 0, 1, 0]], ids=str)
def test_margins_agree(agrees, dtype, mode, pads):
    x = X > 20 if dtype == "bool" else X.astype(dtype)
    agrees("Pad", [x, np.array(pads)], outputs=[dtype], opset=19, against="reference", mode=mode)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_negative_margins_crop(agrees, mode):
    agrees("Pad", [X, np.array([0, -1, 2, 0, 1, -2])], mode=mode)


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_negative_margins_behind_alone_crop(agrees, mode):
    agrees("Pad", [X, np.array([0, 0, 1, 0, 0, -2])], mode=mode)


@pytest.mark.parametrize("dtype", [np.int32, np.bool_])
def test_negative_margins_of_other_types_crop(lower, dtype):
    x = (X % 2).astype(dtype)
    (y,) = lower("Pad", [x, np.array([0, -1, 2, 0, 1, -2])], outputs=[np.dtype(dtype).name])
    np.testing.assert_array_equal(y, np.pad(x[:, 1:, :-2], [(0, 0), (0, 1), (2, 0)]))


def test_margins_of_images_agree(agrees, rng):
    x = rng.standard_normal((1, 2, 5, 6)).astype(np.float32)
    for mode in ("reflect", "edge"):
        agrees("Pad", [x, np.array([0, 0, 1, 2, 0, 0, 2, 1])], mode=mode)


@pytest.mark.parametrize("fed", [[0], [0, 2]])
def test_value_is_taken(agrees, fed):
    agrees("Pad", [X, np.array([1, 0, 0, -1, 2, 1]), np.array(-7.5, np.float32)], fed=fed)


def test_integer_beyond_int32_is_not_taken_for_another(lower):
    with pytest.raises(UnsupportedOpsError, match="int64 constant 1099511627776 does not fit int32"):
        lower("Pad", [np.ones((2, 2), np.int64), np.array([1, 0, 0, 2]), np.array(2**40)], outputs=["int64"])


def test_axes_are_taken(agrees):
    agrees("Pad", [X, np.array([1, 2, 0, 1]), None, np.array([-1, 0])], opset=18)


def test_attributes_of_opset_2_agree(agrees):
    agrees("Pad", [X], opset=10, pads=[0, 1, 0, 0, 0, 2], value=1.5)


def test_margins_around_nothing(lower):
    (y,) = lower("Pad", [X[:, :0], np.array([0, 1, 0, 0, 1, 0]), np.array(2.0, np.float32)])
    np.testing.assert_array_equal(y, np.full((3, 2, 5), 2.0))


@pytest.mark.parametrize("shape", [[3, 4, 5], [1, 7, 2], [4, 3, 8]])
def test_center_crop_pad_agrees(agrees, shape):
    agrees("CenterCropPad", [X, np.array(shape)], against="reference")


def test_center_crop_pad_along_axes_agrees(agrees):
    agrees("CenterCropPad", [X, np.array([6, 3])], against="reference", axes=[1, -1])


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_margins_of_a_sound_need_no_table_of_its_samples(agrees, rng, tmp_path, mode):
    x = rng.standard_normal((1, 20_000)).astype(np.float32)

    agrees("Pad", [x, np.array([0, 200, 0, 200])], mode=mode)

    written = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert written < x.size  # in bytes; a table takes 4 a sample
