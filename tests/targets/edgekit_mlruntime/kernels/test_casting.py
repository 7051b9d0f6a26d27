from __future__ import annotations

import numpy as np
import pytest


def cast(run_op, values, target, ios=17):
    short = {"float16": "fp16", "float32": "fp32"}.get(target, target)
    return run_op("cast", x=values, dtype=short, ios=ios, dtypes=[target])


def test_floats_are_truncated_towards_zero(run_op):
    actual = cast(run_op, np.float32([1.9, -1.9, 0.5, -0.5]), "int32", ios=15)
    assert actual.dtype == np.int32
    np.testing.assert_array_equal(actual, [1, -1, 0, 0])


@pytest.mark.parametrize(
    ("target", "low", "high"),
    [
        ("int8", -128, 127),
        ("uint8", 0, 255),
        ("int16", -32768, 32767),
        ("uint16", 0, 65535),
        ("int32", -(2**31), 2**31 - 1),
    ],
)
def test_floats_out_of_range_saturate_and_nan_becomes_zero(run_op, target, low, high):
    values = np.float32([-1e30, -np.inf, 1e30, np.inf, np.nan, float(high) + 1])
    np.testing.assert_array_equal(cast(run_op, values, target), [low, low, high, high, 0, high])


def test_large_floats_in_range_are_exact(run_op):
    values = np.float32([2**31 - 128, -(2**31), 2**24 + 2])
    np.testing.assert_array_equal(cast(run_op, values, "int32"), [2**31 - 128, -(2**31), 2**24 + 2])


def test_integers_wrap_around(run_op):
    np.testing.assert_array_equal(cast(run_op, np.int32([256, 257, -1, 300]), "uint8"), [0, 1, 255, 44])
    np.testing.assert_array_equal(cast(run_op, np.int32([128, -129]), "int8"), [-128, 127])


def test_only_zero_is_false(run_op):
    actual = cast(run_op, np.float32([0, -0.0, 0.1, np.nan, -3]), "bool")
    np.testing.assert_array_equal(actual, [False, False, True, True, True])


def test_float16_is_rounded_to_even_and_overflows_to_infinity(run_op):
    values = np.float32([2049, 2051, 65519, 65520, 1e-8, 6e-8])
    np.testing.assert_array_equal(cast(run_op, values, "float16"), [2048, 2052, 65504, np.inf, 0, 2.0**-24])


def test_booleans_become_numbers(run_op):
    np.testing.assert_array_equal(cast(run_op, np.array([True, False]), "float32"), [1, 0])
