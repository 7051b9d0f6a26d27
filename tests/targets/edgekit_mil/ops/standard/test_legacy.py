from __future__ import annotations

import numpy as np
import pytest

A = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("op_type", "function"), [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)]
)
@pytest.mark.parametrize(("shape", "axis"), [((3,), 1), ((2, 3), 0), ((4,), -1), ((1,), None)])
def test_second_operand_is_placed_at_the_axis(lower, op_type, function, shape, axis):
    b = np.arange(2, 2 + np.prod(shape), dtype=np.float32).reshape(shape)
    attributes = {"broadcast": 1} if axis is None else {"broadcast": 1, "axis": axis}
    (y,) = lower(op_type, [A, b], fed=[0, 1], opset=6, **attributes)
    trailing = 0 if axis is None else 3 - axis % 3 - len(shape)
    np.testing.assert_allclose(y, function(A, b.reshape(shape + (1,) * trailing)), rtol=1e-6)


def test_comparison_is_placed_likewise(lower):
    b = np.array([5, 10, 20], np.float32)
    (y,) = lower("Greater", [A, b], fed=[0, 1], opset=6, outputs=["bool"], broadcast=1, axis=1)
    np.testing.assert_array_equal(y, b[:, None] < A)


@pytest.mark.parametrize("op_type", ["Sum", "Max", "Min", "Mean"])
def test_tensors_of_one_shape_agree(lower, op_type):
    (y,) = lower(op_type, [A, -A], fed=[0, 1], opset=6)
    expected = {"Sum": A - A, "Max": A, "Min": -A, "Mean": A - A}[op_type]
    np.testing.assert_array_equal(y, expected)


def test_slope_of_every_channel(lower):
    (y,) = lower("PRelu", [-A, np.array([1, 2, 3], np.float32)], opset=6)
    np.testing.assert_array_equal(y, -A * np.array([1, 2, 3], np.float32)[:, None])
