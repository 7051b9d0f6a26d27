from __future__ import annotations

import numpy as np
import pytest

TRUTH = np.array([[True, True], [False, False]]), np.array([True, False])


@pytest.mark.parametrize("op_type", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8"])
def test_comparisons_agree(agrees, op_type, dtype):
    a, b = np.array([[1, 2, 3], [3, 2, 1]], dtype), np.array([2, 2, 2], dtype)
    agrees(op_type, [a, b], fed=[0, 1], outputs=["bool"], against="reference")


@pytest.mark.parametrize("op_type", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"])
@pytest.mark.parametrize("beyond", [2**40, -(2**63), 2**31])
@pytest.mark.parametrize("first", [True, False])
def test_order_to_an_integer_that_does_not_fit_int32_is_known(agrees, op_type, beyond, first):
    x, constant = np.array([[0, -(2**31), 2**31 - 1]]), np.array([beyond])
    agrees(op_type, [constant, x] if first else [x, constant], fed=[int(first)], outputs=["bool"])


@pytest.mark.parametrize("op_type", ["Less", "Equal"])
def test_shape_of_a_known_order_is_that_of_both(agrees, op_type):
    agrees(op_type, [np.array([0, 1, 2]), np.array([[[2**40]]])], outputs=["bool"])


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor", "Equal"])
def test_connectives_agree(agrees, op_type):
    agrees(op_type, TRUTH, fed=[0, 1], outputs=["bool"])


def test_not_agrees(agrees):
    agrees("Not", [TRUTH[0]], outputs=["bool"])


@pytest.mark.parametrize("op_type", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_bits_of_all_signs_and_widths_agree(agrees, op_type, dtype):
    limits = np.iinfo(np.int32 if dtype == "int64" else dtype)
    a = np.array([[limits.min, limits.max, 0, 5, limits.max // 3]], dtype)
    agrees(op_type, [a, a.T.copy()], fed=[0, 1], outputs=[dtype])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_inverted_bits_agree(agrees, dtype):
    agrees("BitwiseNot", [np.array([0, 1, 100], dtype)], outputs=[dtype])


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8", "int32"])
def test_shifts_agree_in_and_out_of_range(agrees, dtype, direction):
    low = 0 if np.dtype(dtype).kind == "u" else -100
    x = np.array([[low], [1], [77], [127]], dtype)
    bits = np.dtype(dtype).itemsize * 8
    places = np.array([0, 1, 3, bits - 1, bits, bits + 5], dtype)
    agrees("BitShift", [x, places], fed=[0, 1], outputs=[dtype], opset=28, against="reference", direction=direction)


@pytest.mark.parametrize("shapes", [((0, 3), (1, 3)), ((3,), (0, 3)), ((0,), (3, 1))])
def test_shifts_of_nothing_agree(agrees, shapes):
    x, places = (np.ones(shape, np.uint8) for shape in shapes)
    agrees("BitShift", [x, places], fed=[0, 1], outputs=["uint8"], direction="LEFT")
