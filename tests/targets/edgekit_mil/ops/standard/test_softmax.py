from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_agrees(agrees, rng, op_type, opset, axis):
    agrees(op_type, [rng.standard_normal((2, 3, 4)).astype(np.float32)], opset=opset, axis=axis)


def test_default_axis_of_opset_11_takes_all_dimensions_after_the_first(agrees, rng):
    agrees("Softmax", [rng.standard_normal((2, 3, 4)).astype(np.float32)], opset=11)


def test_hardmax_marks_the_first_of_equal_maxima(lower):
    (marked,) = lower("Hardmax", [np.array([[1, 3, 3, 2]], np.float32)])
    np.testing.assert_array_equal(marked, [[0, 1, 0, 0]])


def test_logarithm_of_a_vanishing_share_is_finite(agrees):
    agrees("LogSoftmax", [np.array([[0.0, 300.0, -300.0]], np.float32)])
