from __future__ import annotations

import numpy as np
import pytest

from edgekit_mlruntime.precision import hold, round_to_half
from edgekit_mlruntime.program import DataType


@pytest.mark.parametrize("count", [1, 1000, 100_000, 300_000])
def test_rounding_is_that_of_ieee_half_precision(rng, count):
    """NumPy's conversion is the reference: all magnitudes, subnormal, overflowing and special values."""
    values = (rng.standard_normal(count) * 10.0 ** rng.uniform(-9, 6, count)).astype(np.float32)
    specials = np.float32(
        [0, -0.0, np.inf, -np.inf, np.nan, 65519.99, 65520, -65520, 2**-24, 2**-25, 1.5 * 2**-25, 2049]
    )
    values = np.concatenate([values, specials])
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).astype(np.float32)
    given = values.copy()
    actual = round_to_half(values)
    np.testing.assert_array_equal(values, given)
    for rounded in (actual, round_to_half(values, in_place=True)):
        np.testing.assert_array_equal(rounded, expected)
        np.testing.assert_array_equal(np.signbit(rounded), np.signbit(expected))


def test_rounding_takes_any_shape_and_order(rng):
    values = rng.standard_normal((40, 30, 20), np.float32).transpose(2, 0, 1)[::2]
    np.testing.assert_array_equal(round_to_half(values), values.astype(np.float16).astype(np.float32))
    assert round_to_half(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_values_are_held_as_float32_where_float16_is_declared():
    held = hold(np.float16([0.1]), DataType.FLOAT16, rounds=True)
    assert held.dtype == np.float32
    assert held[0] == np.float32(np.float16(0.1))
    assert hold(np.float32([0.1]), DataType.FLOAT16, rounds=False)[0] == np.float32(0.1)


def test_what_is_already_held_is_not_copied():
    values = np.zeros(3, np.float32)
    assert hold(values, DataType.FLOAT32, rounds=True) is values
