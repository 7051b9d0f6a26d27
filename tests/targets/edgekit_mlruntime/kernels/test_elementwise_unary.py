from __future__ import annotations

import math

import numpy as np
import pytest
import torch

TORCH = {
    "abs": torch.abs,
    "atan": torch.atan,
    "ceil": torch.ceil,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "erf": torch.erf,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "floor": torch.floor,
    "round": torch.round,
    "sign": torch.sign,
    "sin": torch.sin,
    "sinh": torch.sinh,
    "square": torch.square,
    "tan": torch.tan,
    "tanh": torch.tanh,
}
TORCH_WITHIN_ONE = {"acos": torch.acos, "asin": torch.asin, "atanh": torch.atanh}


@pytest.mark.parametrize("name", TORCH)
def test_agrees_with_torch_in_double_precision(run_op, rng, name):
    x = rng.uniform(-6, 6, (3, 50)).astype(np.float32)
    np.testing.assert_allclose(run_op(name, x=x), TORCH[name](torch.tensor(x).double()), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("name", TORCH_WITHIN_ONE)
def test_inverse_functions_agree_with_torch(run_op, rng, name):
    x = rng.uniform(-0.99, 0.99, 50).astype(np.float32)
    np.testing.assert_allclose(
        run_op(name, x=x), TORCH_WITHIN_ONE[name](torch.tensor(x).double()), rtol=2e-6, atol=1e-7
    )


@pytest.mark.parametrize("name", ["abs", "exp", "erf", "sqrt", "tanh", "logical_not", "clip", "threshold"])
def test_a_scalar_stays_a_scalar(run_op, name):
    limits = {"clip": {"alpha": 0.0, "beta": 9.0}, "threshold": {"alpha": 0.0}}.get(name, {})
    x = np.array(True) if name == "logical_not" else np.array(1.0, np.float32)
    assert run_op(name, x=x, dtypes=["bool" if name == "logical_not" else "float32"], **limits).shape == ()


def test_halves_are_rounded_to_even(run_op):
    np.testing.assert_array_equal(run_op("round", x=np.float32([0.5, 1.5, 2.5, -0.5, -1.5])), [0, 2, 2, 0, -2])


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("abs", [-3, 4], [3, 4]),
        ("sign", [-3, 0, 9], [-1, 0, 1]),
        ("square", [65536, -3], [0, 9]),
        ("exp2", [3, 0], [8, 1]),
    ],
)
def test_integers_stay_integers(run_op, name, values, expected):
    actual = run_op(name, x=np.int32(values), dtypes=["int32"])
    assert actual.dtype == np.int32
    np.testing.assert_array_equal(actual, expected)


def test_epsilon_is_added_before_the_function(run_op):
    x = np.float32([0.0, 1.0])
    np.testing.assert_allclose(run_op("inverse", x=x, epsilon=0.5), [2, 1 / 1.5], rtol=1e-6)
    np.testing.assert_allclose(run_op("log", x=x, epsilon=0.5), [math.log(0.5), math.log(1.5)], rtol=1e-6)
    np.testing.assert_allclose(run_op("rsqrt", x=x, epsilon=0.25), [2, 1 / math.sqrt(1.25)], rtol=1e-6)


def test_default_epsilon_keeps_float32_finite_at_zero(run_op):
    zero = np.float32([0.0])
    np.testing.assert_allclose(run_op("inverse", x=zero), [1e4], rtol=1e-6)
    np.testing.assert_allclose(run_op("rsqrt", x=zero), [1e6], rtol=1e-6)
    # The least positive float32 is 2 ** -149.
    np.testing.assert_allclose(run_op("log", x=zero), [-149 * math.log(2)], rtol=1e-6)


def test_default_epsilon_vanishes_where_float16_cannot_hold_it(run_op):
    zero = np.float16([0.0])
    assert run_op("log", x=zero, dtypes=["float16"])[0] == -np.inf
    assert run_op("rsqrt", x=zero, dtypes=["float16"])[0] == np.inf
    # 1e-4 is 1.00017e-4 in float16, whose inverse is 9998.3; the float16 next to it is 10000.
    assert run_op("inverse", x=zero, dtypes=["float16"])[0] == 10000


def test_clip_keeps_not_a_number(run_op):
    actual = run_op("clip", x=np.float32([-9, 0.5, 9, np.nan, np.inf, -np.inf]), alpha=-1.0, beta=2.0)
    np.testing.assert_array_equal(actual, [-1, 0.5, 2, np.nan, 2, -1])


def test_threshold_is_a_lower_bound(run_op):
    np.testing.assert_array_equal(run_op("threshold", x=np.float32([-2, 0.5, 3]), alpha=0.7), np.float32([0.7, 0.7, 3]))
    actual = run_op("threshold", x=np.int32([-2, 5]), alpha=np.int32(1), dtypes=["int32"])
    np.testing.assert_array_equal(actual, [1, 5])
