from __future__ import annotations

import numpy as np
import pytest

A = np.array([[7, -7, 9], [-9, 100, -3]])
B = np.array([[2, 2, -4], [-4, 7, 5]])


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((3, 1), (2, 1, 4)), ((), (2, 3))])
def test_floats_broadcast(agrees, rng, op_type, shapes):
    x, y = (rng.uniform(1, 2, shape).astype(np.float32) for shape in shapes)
    agrees(op_type, [x, y], fed=[0, 1])


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64])
def test_integers_keep_their_semantics(agrees, op_type, dtype):
    a, b = (np.abs(x).astype(dtype) if np.dtype(dtype).kind == "u" else x.astype(dtype) for x in (A, B))
    agrees(op_type, [a, b], fed=[0, 1], outputs=[np.dtype(dtype).name], against="reference")


def test_integer_division_truncates(lower):
    (quotient,) = lower("Div", [np.array([-7, 7, -1]), np.array([2, -2, 3])], fed=[0, 1], outputs=["int64"])
    np.testing.assert_array_equal(quotient, [-3, -3, 0])


def test_doubles_divided_by_what_float32_does_not_hold(lower):
    """I-BERT multiplies by integers and divides by powers of two; 2^129 is infinite in float32."""
    x = np.array([2.0**60, -3 * 2.0**70, 0.0])
    (quotient,) = lower("Div", [x, np.array([2.0**129])], fed=[0], outputs=["float64"])
    np.testing.assert_array_equal(quotient, [2.0**-69, -3 * 2.0**-59, 0.0])


def test_bytes_wrap_around(lower):
    (total,) = lower("Add", [np.array([250], np.uint8), np.array([10], np.uint8)], fed=[0, 1], outputs=["uint8"])
    assert total == 4


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.float32])
def test_remainder_has_the_sign_asked_for(agrees, dtype, fmod):
    agrees(
        "Mod", [A.astype(dtype), B.astype(dtype)], fed=[0, 1], outputs=[np.dtype(dtype).name],
        opset=28, against="reference", fmod=fmod,
    )  # fmt: skip


@pytest.mark.parametrize("exponent", [2.0, 0.5, 1.0, 3.0, -1.0])
def test_constant_powers_agree(agrees, rng, exponent):
    agrees("Pow", [rng.uniform(0.5, 3, (3, 4)).astype(np.float32), np.array(exponent, np.float32)])


@pytest.mark.parametrize(("base", "exponent"), [("float32", "int64"), ("int64", "float32"), ("int32", "int32")])
def test_powers_of_mixed_types_agree(agrees, base, exponent):
    x, y = np.array([1, 2, 3, 4]).astype(base), np.array([3, 2, 4, 0]).astype(exponent)
    agrees("Pow", [x, y], fed=[0, 1], outputs=[base])


@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_variadic_agrees(agrees, rng, op_type, count):
    xs = [rng.standard_normal((2, 3)).astype(np.float32), *(rng.standard_normal(3).astype(np.float32),) * 2][:count]
    agrees(op_type, xs, fed=range(count))


@pytest.mark.parametrize("op_type", ["Max", "Min"])
def test_extremes_of_integers_agree(agrees, op_type):
    agrees(op_type, [A, B], fed=[0, 1], outputs=["int64"])
