from __future__ import annotations

import numpy as np
import pytest


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 2, 3)])
def test_linear_multiplies_by_the_transposed_weight(run_op, rng, lead):
    x, weight, bias = normal(rng, *lead, 4), normal(rng, 5, 4), normal(rng, 5)
    expected = np.einsum("...i,oi->...o", x.astype(np.float64), weight) + bias
    np.testing.assert_allclose(run_op("linear", x=x, weight=weight, bias=bias), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run_op("linear", x=x, weight=weight), expected - bias, rtol=1e-4, atol=1e-5)


def test_linear_of_integers_stays_exact(run_op):
    x, weight = np.array([[2**24 + 1, 1]], np.int32), np.array([[1, 2], [3, 4]], np.int32)
    actual = run_op("linear", x=x, weight=weight, bias=np.array([1, -1], np.int32), dtypes=["int32"])
    np.testing.assert_array_equal(actual, [[2**24 + 4, 3 * 2**24 + 6]])


@pytest.mark.parametrize(
    ("x_shape", "y_shape"),
    [
        ((4,), (4,)),
        ((4,), (10, 4, 3)),
        ((10, 3, 4), (4,)),
        ((10, 4, 3), (5, 10, 3, 2)),
        ((2, 3, 4), (4, 5)),
        ((4, 3), (3, 2)),
    ],
)
def test_matmul_broadcasts(run_op, rng, x_shape, y_shape):
    x, y = normal(rng, *x_shape), normal(rng, *y_shape)
    actual = run_op("matmul", x=x, y=y, fed=["x", "y"])
    expected = np.matmul(x.astype(np.float64), y.astype(np.float64))
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_matmul_transposes_matrices_but_not_vectors(run_op, rng):
    x, y, vector = normal(rng, 2, 4, 3), normal(rng, 2, 5, 4), normal(rng, 4)
    actual = run_op("matmul", x=x, y=y, transpose_x=True, transpose_y=True)
    np.testing.assert_allclose(actual, np.einsum("bki,bok->bio", x, y), rtol=1e-4, atol=1e-5)
    actual = run_op("matmul", x=vector, y=y, transpose_x=True, transpose_y=True)
    np.testing.assert_allclose(actual, np.einsum("k,bok->bo", vector, y), rtol=1e-4, atol=1e-5)


def test_matmul_takes_a_constant_of_another_type(run_op):
    x, y = np.array([[0.5, 2]], np.float32), np.array([[3], [4]], np.float16)
    np.testing.assert_array_equal(run_op("matmul", x=x, y=y, ios=17), [[9.5]])


@pytest.mark.parametrize(
    ("equation", "x_shape", "y_shape"),
    [
        ("nchw,nwhu->nchu", (2, 3, 4, 5), (2, 5, 4, 6)),
        ("chw,whr->chr", (3, 4, 5), (5, 4, 6)),
        ("abcd,adce->abce", (1, 3, 1, 5), (2, 5, 4, 6)),
        ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
        ("ab,cd->abcd", (2, 3), (4, 5)),
        ("abc,bd->ad", (2, 3, 4), (3, 5)),
        ("aab,bc->ac", (3, 3, 4), (4, 2)),
        ("i, i ->", (4,), (4,)),
        ("ab,bc->ac", (3, 1), (4, 2)),
    ],
)
def test_einsum_agrees_with_numpy(run_op, rng, equation, x_shape, y_shape):
    x, y = normal(rng, *x_shape), normal(rng, *y_shape)
    actual = run_op("einsum", values=(x, y), equation=equation, fed=[])
    np.testing.assert_allclose(actual, np.einsum(equation, x, y), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lead", [(64,), (2, 40), (2, 3, 16)])
@pytest.mark.parametrize("bias", [False, True])
def test_large_linear(run_op, rng, lead, bias):
    x, weight = normal(rng, *lead, 32), normal(rng, 48, 32)
    inputs = {"x": x, "weight": weight, **({"bias": normal(rng, 48)} if bias else {})}
    expected = np.einsum("...i,oi->...o", x.astype(np.float64), weight) + inputs.get("bias", 0)
    np.testing.assert_allclose(run_op("linear", **inputs), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("transpose_x", [False, True])
@pytest.mark.parametrize("transpose_y", [False, True])
@pytest.mark.parametrize(
    ("x_lead", "y_lead"), [((), ()), ((3,), ()), ((), (3,)), ((2, 1), (3,)), ((2, 3), (2, 3)), ((1,), (4, 1))]
)
def test_large_matmul(run_op, rng, x_lead, y_lead, transpose_x, transpose_y, constant):
    x = normal(rng, *x_lead, *((32, 40) if transpose_x else (40, 32)))
    y = normal(rng, *y_lead, *((48, 32) if transpose_y else (32, 48)))
    left, right = (
        value.astype(np.float64).swapaxes(-1, -2) if transposed else value.astype(np.float64)
        for value, transposed in ((x, transpose_x), (y, transpose_y))
    )
    fed = ["x"] if constant else ["x", "y"]
    actual = run_op("matmul", x=x, y=y, transpose_x=transpose_x, transpose_y=transpose_y, fed=fed)
    np.testing.assert_allclose(actual, left @ right, rtol=1e-4, atol=1e-4)


def test_large_einsum(run_op, rng):
    x, y = normal(rng, 2, 20, 4, 32), normal(rng, 2, 32, 4, 30)
    actual = run_op("einsum", values=(x, y), equation="nchw,nwhu->nchu", fed=[])
    np.testing.assert_allclose(actual, np.einsum("nchw,nwhu->nchu", x.astype(np.float64), y), rtol=1e-4, atol=1e-4)
