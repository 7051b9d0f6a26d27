"""Unsigned integers beyond 2^31, which OpenVINO takes for negative ones, against NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_openvino

RANDOM = np.random.default_rng(0)
ENDS = np.array([0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1], np.uint32)
PAIRS = np.array([(a, b) for a in ENDS for b in ENDS], np.uint32)
DRAWN = RANDOM.integers(0, 2**32, (200, 2), dtype=np.uint32) >> RANDOM.integers(0, 32, (200, 2), dtype=np.uint32)
A, B = np.concatenate([PAIRS, DRAWN]).T.copy()
BINARY: dict[str, tuple[str, Callable[..., np.ndarray]]] = {
    "Less": ("bool", np.less),
    "LessOrEqual": ("bool", np.less_equal),
    "Greater": ("bool", np.greater),
    "GreaterOrEqual": ("bool", np.greater_equal),
    "Equal": ("bool", np.equal),
    "Max": ("uint32", np.maximum),
    "Min": ("uint32", np.minimum),
}


def computed(folder: Path, inputs: str, kind: str, body: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({inputs}) => ({kind}[] y) {{ {body} }}'
    )
    return np.asarray(edgekit_openvino.load(edgekit_openvino.convert(proto, folder / "model")).run(feeds)["y"])


@pytest.mark.parametrize("operator", BINARY)
def test_the_greater_one_is_the_unsigned_one(tmp_path: Path, operator: str) -> None:
    kind, expected = BINARY[operator]
    found = computed(tmp_path, "uint32[n] a, uint32[n] b", kind, f"y = {operator}(a, b)", {"a": A, "b": B})
    np.testing.assert_array_equal(found, expected(A, B))


@pytest.mark.parametrize(
    ("body", "expected"), [("Div(a, b)", A // np.maximum(B, 1)), ("Mod(a, b)", A % np.maximum(B, 1))]
)
def test_quotients_and_remainders(tmp_path: Path, body: str, expected: np.ndarray) -> None:
    feeds = {"a": A, "b": np.maximum(B, 1)}
    np.testing.assert_array_equal(
        computed(tmp_path, "uint32[n] a, uint32[n] b", "uint32", f"y = {body}", feeds), expected
    )


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(tmp_path: Path, direction: str) -> None:
    by = np.arange(len(A), dtype=np.uint32) % 32
    body = f'y = BitShift<direction = "{direction}">(a, b)'
    found = computed(tmp_path, "uint32[n] a, uint32[n] b", "uint32", body, {"a": A, "b": by})
    np.testing.assert_array_equal(found, A >> by if direction == "RIGHT" else A << by)


@pytest.mark.parametrize("keeps", [0, 1])
@pytest.mark.parametrize("operator", ["ReduceL1", "ReduceMax", "ReduceMin", "ReduceSum"])
def test_extremes_and_sums(tmp_path: Path, operator: str, keeps: int) -> None:
    x = A.reshape(-1, 5)
    body = f"a = Constant<value_ints = [1]>() y = {operator}<keepdims = {keeps}>(x, a)"
    found = computed(tmp_path, "uint32[n, 5] x", "uint32", body, {"x": x})
    expected = {"ReduceMax": np.max, "ReduceMin": np.min, "ReduceSum": np.sum, "ReduceL1": np.sum}[operator](
        x, axis=1, keepdims=bool(keeps)
    )
    np.testing.assert_array_equal(found, expected.astype(np.uint32))


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("uint32", "y = Abs(a)", A),
        ("uint32", "y = Sign(a)", A != 0),
        ("bool", "y = Cast<to = 9>(a)", A != 0),
        ("float", "y = Cast<to = 1>(a)", A.astype(np.float32)),
        ("uint32", "l = Constant<value = uint32 {3}>() h = Constant<value = uint32 {9}>() y = Clip(a, l, h)", None),
    ],
)
def test_each_number(tmp_path: Path, kind: str, body: str, expected: np.ndarray | None) -> None:
    expected = np.clip(A, 3, 9) if expected is None else expected
    np.testing.assert_array_equal(computed(tmp_path, "uint32[n] a", kind, body, {"a": A}), expected)
