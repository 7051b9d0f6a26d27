from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

from edgekit.errors import UnsupportedOpsError


def test_constant_of_shape_agrees(agrees):
    number = numpy_helper.from_array(np.array([7], np.int64))
    agrees("ConstantOfShape", [np.array([2, 3])], fed=[], outputs=["int64"], value=number)


@pytest.mark.parametrize("k", [-1, 0, 2])
def test_diagonals_agree(agrees, k):
    agrees("EyeLike", [np.zeros((3, 4), np.float32)], k=k)


def test_range_of_run_time_limits_agrees(agrees):
    limits = [np.array(number, np.float32) for number in (1.0, 9.5, 2.0)]
    agrees("Range", limits, fed=[0, 1, 2])


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("fed", [[0], [0, 2]])
def test_one_hot_agrees(agrees, axis, dtype, fed):
    indices = np.array([[0, 3, -1], [7, -9, 2]])
    values = np.array([-2, 5], dtype)
    agrees("OneHot", [indices, np.array(4), values], fed=fed, outputs=[dtype], against="reference", axis=axis)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -1, 2, 2**62])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_triangles_agree(agrees, upper, k, dtype):
    x = np.arange(1, 25).reshape(2, 3, 4).astype(dtype)
    agrees("Trilu", [x] if k is None else [x, np.array(k)], outputs=[dtype], upper=upper)


@pytest.mark.parametrize(
    "attributes",
    [
        {"value": numpy_helper.from_array(np.array([[1.5, 2.5]], np.float32))},
        {"value_float": 2.5},
        {"value_floats": [1.0, 2.0]},
        {"value_int": 3},
        {"value_ints": [3, 4]},
    ],
    ids=lambda attributes: next(iter(attributes)),
)
def test_constants_agree(agrees, attributes):
    dtype = "int64" if "int" in next(iter(attributes)) else "float32"
    agrees("Constant", [], fed=[], outputs=[dtype], **attributes)


def test_text_is_refused(lower):
    with pytest.raises(UnsupportedOpsError, match="neither texts"):
        lower("Constant", [], fed=[], value_string="a")


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_classes_of_six_dimensions_agree(agrees, axis):
    classes = np.arange(24).reshape(1, 2, 3, 2, 2) % 4
    values = np.array([0, 1], np.float32)
    agrees("OneHot", [classes, np.array(4), values], axis=axis)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [-6, -1, 0, 2, 9])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_diagonal_that_is_an_input(agrees, rng, upper, k, shape):
    x = rng.standard_normal((2, 4, 5)).astype(np.float32)
    agrees("Trilu", [x, np.full(shape, k)], fed=(0, 1), upper=upper)


@pytest.mark.parametrize("upper", [0, 1])
def test_triangles_of_six_dimensions_agree(agrees, rng, upper):
    agrees("Trilu", [rng.standard_normal((1, 2, 1, 2, 3, 3)).astype(np.float32)], upper=upper)


def test_triangles_of_a_vector_are_refused(lower):
    with pytest.raises(UnsupportedOpsError, match=r"Trilu .*: needs a matrix, found rank 1"):
        lower("Trilu", [np.ones(5, np.float32)])
