"""Operations on large integers that OpenVINO computes in float32, against NumPy's integers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_openvino

LEAST, GREATEST = -(2**31), 2**31 - 1
X = np.array([[GREATEST, 16777217, -16777219, 5], [LEAST, LEAST + 1, -16777217, -16777218]], np.int64)


def computed(folder: Path, inputs: str, body: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({inputs}) => ({inputs.split("[")[0]}[] y) {{ {body} }}'
    )
    return np.asarray(edgekit_openvino.load(edgekit_openvino.convert(proto, folder / "model")).run(feeds)["y"])


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Relu(x)", np.maximum(X, 0)),
        ("l = Constant<value_int = -16777217>() h = Constant<value_int = 16777217>() y = Clip(x, l, h)", None),
        ("l = Constant<value_int = -16777217>() y = Max(x, l)", np.maximum(X, -16777217)),
        ("l = Constant<value_int = 0>() h = Constant<value_int = 2000000001>() m = Min(h, x) y = Max(l, m)", None),
        ("a = Constant<value_ints = [1]>() y = ReduceMax<keepdims = 0>(x, a)", X.max(1)),
        ("a = Constant<value_ints = [1]>() y = ReduceMin<keepdims = 0>(x, a)", X.min(1)),
        ("a = Constant<value_ints = [0, 1]>() y = ReduceMax(x, a)", X.max(keepdims=True)),
        ("a = Constant<value_ints = [-1]>() t = Neg(x) u = Neg(t) y = ReduceMin(u, a)", X.min(1, keepdims=True)),
    ],
)
def test_integers_keep_all_of_their_digits(tmp_path: Path, kind: str, body: str, expected: np.ndarray | None) -> None:
    if expected is None:
        expected = np.clip(X, -16777217, 16777217) if "Clip" in body else np.clip(X, 0, 2000000001)
    if kind == "int32":
        body = re.sub(r"value_int = (-?\d+)", r"value = int32 {\1}", body)
    found = computed(tmp_path, f"{kind}[2, 4] x", body, {"x": X.astype(kind)})
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("is_open", [True, False])
def test_powers_of_integers(tmp_path: Path, kind: str, is_open: bool) -> None:
    pairs = [(3, 16), (7, 9), (-7, 9), (4097, 2), (46340, 2), (2, 30), (-2, 31), (5, 1), (9, 0), (0, 0), (0, 7)]
    pairs += [(1, -3), (-1, -3), (-1, -2), (2, -1), (-1, 99), (-1, 100), (1, 99)]
    base, exponent = np.array(pairs, np.int64).T
    expected = [one**other if other >= 0 else int(one**other) for one, other in pairs]
    feeds = {"x": base.astype(kind), "e": exponent.astype(kind)}
    inputs, body = f"{kind}[n] x, {kind}[n] e", "y = Pow(x, e)"
    if not is_open:
        feeds = {"x": np.array([4097, -46340, 12345], kind)}
        inputs, body = f"{kind}[n] x", f"e = Constant<value = {kind} {{2}}>() y = Pow(x, e)"
        expected = [4097**2, 46340**2, 12345**2]
    np.testing.assert_array_equal(computed(tmp_path, inputs, body, feeds), expected)


RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(
    "shapes",
    [([3, 8], [8, 2]), ([2, 3, 8], [8, 2]), ([2, 1, 3, 8], [5, 8, 2]), ([3, 8], [8]), ([8], [8, 2]), ([8], [8])],
)
def test_products_of_integers(tmp_path: Path, kind: str, shapes: tuple[list[int], list[int]]) -> None:
    a, b = (RANDOM.integers(-9000, 9000, shape) for shape in shapes)
    found = computed(tmp_path, f"{kind}{shapes[0]} a, {kind}{shapes[1]} b", "y = MatMul(a, b)", _cast(kind, a=a, b=b))
    np.testing.assert_array_equal(found, a @ b)


def test_transposed_products_of_integers(tmp_path: Path) -> None:
    a, b, c = RANDOM.integers(-9000, 9000, (8, 3)), RANDOM.integers(-9000, 9000, (2, 8)), np.array([16777217, 3])
    found = computed(
        tmp_path,
        "int32[8, 3] a, int32[2, 8] b, int32[2] c",
        "y = Gemm<transA = 1, transB = 1>(a, b, c)",
        _cast("int32", a=a, b=b, c=c),
    )
    np.testing.assert_array_equal(found, a.T @ b.T + c)


def test_products_of_8_bits_stay_as_they_are(tmp_path: Path) -> None:
    feeds = {"a": RANDOM.integers(0, 255, (3, 8), np.uint8), "b": RANDOM.integers(-128, 127, (8, 2), np.int8)}
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (uint8[3, 8] a, int8[8, 2] b) => (int32[3, 2] y) '
        "{ y = MatMulInteger(a, b) }"
    )
    path = edgekit_openvino.convert(proto, tmp_path / "model")
    assert 'type="MatMul"' in path.read_text(encoding="utf-8")
    expected = feeds["a"].astype(np.int32) @ feeds["b"].astype(np.int32)
    np.testing.assert_array_equal(edgekit_openvino.load(path).run(feeds)["y"], expected)


def _cast(kind: str, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {name: array.astype(kind) for name, array in arrays.items()}


SUMMED = RANDOM.integers(-9_000_000, 9_000_000, (3, 20, 4)) * 2 + 1
"""Odd numbers, whose sums are not all numbers of float32."""


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("sizes", ["3, 20, 4", "a, b, c"])
@pytest.mark.parametrize("keeps", [0, 1])
@pytest.mark.parametrize("axes", [[1], [-1], [0, 1], [2, 0], []])
def test_sums_of_integers(tmp_path: Path, kind: str, sizes: str, keeps: int, axes: list[int]) -> None:
    given = f"a = Constant<value_ints = {axes}>() y = ReduceSum<keepdims = {keeps}>(x, a)"
    body = given if axes else f"y = ReduceSum<keepdims = {keeps}>(x)"
    found = computed(tmp_path, f"{kind}[{sizes}] x", body, {"x": SUMMED.astype(kind)})
    expected = SUMMED.sum(tuple(axes) if axes else None, keepdims=bool(keeps))
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    l1 = computed(tmp_path, f"{kind}[{sizes}] x", body.replace("ReduceSum", "ReduceL1"), {"x": SUMMED.astype(kind)})
    assert axes == [] or l1.shape == expected.shape


@pytest.mark.parametrize("operator", ["ReduceL1", "ReduceSumSquare", "ReduceProd"])
def test_other_reductions_of_integers(tmp_path: Path, operator: str) -> None:
    x = np.array([[16777217, -16777219, 5, 2], [3, 5, 7, 16777213]])
    x = x % 30011 if operator == "ReduceSumSquare" else x[1:] if operator == "ReduceProd" else x
    expected = {"ReduceL1": np.abs(x).sum, "ReduceSumSquare": np.square(x).sum, "ReduceProd": x.prod}[operator]
    feeds = {"x": x.astype(np.int32)}
    body = f"a = Constant<value_ints = [1]>() y = {operator}(x, a)"
    found = computed(tmp_path, f"int32{list(x.shape)} x", body, feeds)
    np.testing.assert_array_equal(found, expected(axis=1, keepdims=True))


def test_sums_of_nothing_are_zero(tmp_path: Path) -> None:
    body = "a = Constant<value_ints = [1]>() y = ReduceSum(x, a)"
    found = computed(tmp_path, "int32[n, m] x", body, {"x": np.zeros((2, 0), np.int32)})
    assert found.tolist() == [[0], [0]]


def test_sums_of_a_mask_stay_as_they_are(tmp_path: Path) -> None:
    computed(
        tmp_path,
        "bool[2, 3] m, int64[1] a",
        "x = Cast<to = 7>(m) k = Constant<value_ints = [1]>() s = ReduceSum(x, k) z = Sub(s, a) y = Greater(z, a)",
        {"m": np.ones((2, 3), bool), "a": np.zeros(1, np.int64)},
    )
    assert 'type="CumSum"' not in (tmp_path / "model.xml").read_text(encoding="utf-8")
