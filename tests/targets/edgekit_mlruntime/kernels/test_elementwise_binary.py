from __future__ import annotations

import time
import timeit
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from edgekit_mlruntime.kernels.elementwise_binary import power
from edgekit_mlruntime.registry import Call

TORCH = {
    "add": torch.add,
    "floor_div": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "mod": torch.remainder,
    "mul": torch.mul,
    "real_div": torch.div,
    "sub": torch.sub,
}
COMPARISONS = {
    "equal": torch.eq,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "less": torch.lt,
    "less_equal": torch.le,
    "not_equal": torch.ne,
}
LOGIC = {"logical_and": torch.logical_and, "logical_or": torch.logical_or, "logical_xor": torch.logical_xor}


def run_binary(run_op, name, x, y, dtype="float32"):
    return run_op(name, x=x, y=y, fed=["x", "y"], dtypes=[dtype])


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((2, 1, 4), (3, 1)), ((), (5,))])
def test_arithmetic_broadcasts_and_agrees_with_torch(run_op, rng, name, shapes):
    x, y = (rng.uniform(-5, 5, shape).astype(np.float32) for shape in shapes)
    np.testing.assert_allclose(run_binary(run_op, name, x, y), TORCH[name](torch.tensor(x), torch.tensor(y)), rtol=1e-6)


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_agree_with_torch(run_op, name):
    x, y = np.float32([1, 2, 3, np.nan, 0.0]), np.float32([2, 2, 2, np.nan, -0.0])
    actual = run_binary(run_op, name, x, y, "bool")
    assert actual.dtype == np.bool_
    np.testing.assert_array_equal(actual, COMPARISONS[name](torch.tensor(x), torch.tensor(y)))


@pytest.mark.parametrize("name", LOGIC)
def test_logic_agrees_with_torch(run_op, name):
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    np.testing.assert_array_equal(run_binary(run_op, name, x, y, "bool"), LOGIC[name](torch.tensor(x), torch.tensor(y)))


def test_integer_arithmetic_wraps_around(run_op):
    big = np.int32([2**31 - 1])
    np.testing.assert_array_equal(run_binary(run_op, "add", big, np.int32([1]), "int32"), [-(2**31)])
    np.testing.assert_array_equal(run_binary(run_op, "mul", big, np.int32([2]), "int32"), [-2])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("floor_div", [3, -4, -4, 3]), ("mod", [1, 1, -1, -1]), ("real_div", [3, -3, -3, 3])],
)
def test_integer_division_by_the_signs_of_its_operands(run_op, name, expected):
    x, y = np.int32([7, -7, 7, -7]), np.int32([2, 2, -2, -2])
    np.testing.assert_array_equal(run_binary(run_op, name, x, y, "int32"), expected)


@pytest.mark.parametrize("name", ["floor_div", "real_div"])
def test_integer_division_by_zero_gives_zero(run_op, name):
    np.testing.assert_array_equal(run_binary(run_op, name, np.int32([7, -7]), np.int32([0, 0]), "int32"), [0, 0])


def test_floor_division_and_modulo_of_floats_keep_the_divisors_sign(run_op):
    x, y = np.float32([7.5, -7.5, 7.5, -7.5]), np.float32([2, 2, -2, -2])
    np.testing.assert_array_equal(run_binary(run_op, "floor_div", x, y), [3, -4, -4, 3])
    np.testing.assert_array_equal(run_binary(run_op, "mod", x, y), [1.5, 0.5, -0.5, -1.5])


def test_division_by_zero_follows_ieee(run_op):
    actual = run_binary(run_op, "real_div", np.float32([1, -1, 0]), np.float32([0, 0, 0]))
    np.testing.assert_array_equal(actual, [np.inf, -np.inf, np.nan])


def test_power_agrees_with_torch(run_op, rng):
    x, y = rng.uniform(0.1, 4, 50).astype(np.float32), rng.uniform(-3, 3, 50).astype(np.float32)
    expected = torch.pow(torch.tensor(x).double(), torch.tensor(y).double())
    np.testing.assert_allclose(run_binary(run_op, "pow", x, y), expected, rtol=1e-5)


def test_power_of_two_broadcasts_like_any_other(run_op):
    actual = run_binary(run_op, "pow", np.float32([-3, 4]), np.float32([[[2]]]))
    np.testing.assert_array_equal(actual, [[[9, 16]]])


@pytest.mark.parametrize("exponent", [-3, -2, -1, 0, 1, 3, 4])
def test_power_of_signed_numbers_agrees_with_torch(run_op, rng, exponent):
    x = np.concatenate([rng.uniform(-4, 4, 50), [0.0, -0.0, np.inf, -np.inf, np.nan]]).astype(np.float32)
    expected = torch.pow(torch.tensor(x), torch.tensor(exponent, dtype=torch.float32)).numpy()
    actual = run_binary(run_op, "pow", x, np.float32(exponent))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    defined = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[defined]), np.signbit(expected[defined]))


def test_a_cube_of_signed_numbers_takes_no_longer_than_one_of_positive_ones(rng):
    x, three = rng.normal(size=1 << 18).astype(np.float32), np.float32(3)
    call = Mock(spec=Call)
    signed, positive = (
        min(timeit.repeat(lambda given=given: power(call, given, three), number=1, repeat=9, timer=time.process_time))
        for given in (x, np.abs(x))
    )
    assert signed < 5 * positive


def test_integer_power_wraps_around_and_truncates_fractions(run_op):
    x, y = np.int32([3, 2, 2, -1, -1, 5, 1, 0]), np.int32([3, 31, 32, -3, -2, -1, -7, 0])
    np.testing.assert_array_equal(run_binary(run_op, "pow", x, y, "int32"), [27, -(2**31), 0, -1, 1, 0, 1, 1])


def test_results_are_rounded_to_float16_once(run_op):
    # 1 + 2 ** -11 lies halfway between 1 and the next float16: it goes to the even one.
    x, y = np.float16([1, 1, 60000]), np.float16([2**-11, 2**-10, 60000])
    np.testing.assert_array_equal(run_binary(run_op, "add", x, y, "float16"), [1, 1 + 2**-10, np.inf])


def test_select_takes_from_both_sides(run_op):
    actual = run_op(
        "select", fed=["cond"], cond=np.array([[True], [False]]), a=np.float32([1, 2]), b=np.float32([3, 4])
    )
    np.testing.assert_array_equal(actual, [[1, 2], [3, 4]])
