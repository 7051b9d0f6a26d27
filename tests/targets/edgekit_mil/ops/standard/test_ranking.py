from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError

TIED = np.array([[1, 5, 5, 2], [7, 0, 7, 0]], np.float32)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
def test_places_of_extremes_agree(agrees, op_type, axis, keepdims, last):
    attributes = {"axis": axis, "keepdims": keepdims, "select_last_index": last}
    agrees(op_type, [TIED], outputs=["int64"], **attributes)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_largest_elements_agree(agrees, rng, largest, axis, dtype):
    x = rng.permutation(20).reshape(4, 5).astype(dtype)
    agrees("TopK", [x, np.array([3])], outputs=[dtype, "int64"], axis=axis, largest=largest)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("count", [1, 3])
def test_largest_elements_of_a_computed_number_agree(agrees, rng, axis, count):
    x = rng.permutation(20).reshape(4, 5).astype(np.float32)
    agrees("TopK", [x, np.array([count])], fed=[0, 1], outputs=["float32", "int64"], axis=axis)


def test_count_from_an_attribute_agrees(agrees, rng):
    agrees("TopK", [rng.standard_normal((2, 6)).astype(np.float32)], opset=9, outputs=["float32", "int64"], k=2)


@pytest.mark.parametrize("in_order", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_distinct_elements_agree(agrees, in_order, axis):
    x = np.array([[3, 1, 3], [1, 2, 1], [3, 1, 3], [0, 2, 0]], np.float32)
    attributes = {"sorted": in_order} if axis is None else {"sorted": in_order, "axis": axis}
    outputs = ["float32", "int64", "int64", "int64"]
    agrees("Unique", [x], outputs=outputs, **attributes)


def test_distinct_elements_of_very_many_are_refused(lower):
    with pytest.raises(UnsupportedOpsError, match="comparisons"):
        lower("Unique", [np.zeros(5000, np.float32)])


def test_fewer_elements_than_none_are_refused(lower):
    with pytest.raises(UnsupportedOpsError, match=r"takes -1 elements: the least is 0"):
        lower("TopK", [TIED, np.array([-1])], outputs=["float32", "int64"])
