"""Comparisons of large integers and choices between them, computed in float32 by OpenVINO, against ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_openvino
from edgekit_openvino.exact.integer_comparisons import KINDS

RANDOM = np.random.default_rng(0)
NEAR = 1_500_000_000 + RANDOM.integers(-9, 9, (2, 200))
"""Float32 holds every 128th integer there."""
ENDS = np.array([[-(2**31), 2**31 - 1, 2**31 - 1, -(2**31), 2**31 - 1], [2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0]])
A, B = np.concatenate([NEAR, ENDS, [[7, -7], [-7, -7]]], axis=1)
ORDERS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")


def check(folder: Path, kind: str, body: str, result: str) -> None:
    """Holds an artifact of a graph of a and b against ONNX Runtime."""
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({kind}[n] a, {kind}[n] b) => ({result}[n] y) {{ {body} }}'
    )
    feeds = {"a": A.astype(kind), "b": B.astype(kind)}
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    found = edgekit_openvino.load(edgekit_openvino.convert(proto, folder / "model")).run(feeds)["y"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("operator", ORDERS)
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_integers_are_compared_by_all_of_their_digits(tmp_path: Path, kind: str, operator: str) -> None:
    check(tmp_path, kind, f"y = {operator}(a, b)", "bool")


@pytest.mark.parametrize("operands", ["a, c", "c, a"])
@pytest.mark.parametrize("operator", ORDERS)
def test_a_large_constant_is_one_number(tmp_path: Path, operator: str, operands: str) -> None:
    check(tmp_path, "int32", f"c = Constant<value = int32 {{1500000000}}>() y = {operator}({operands})", "bool")


def test_two_integers_that_differ_are_not_equal(tmp_path: Path) -> None:
    check(tmp_path, "int32", "k = Equal(a, b) y = Not(k)", "bool")


@pytest.mark.parametrize("operands", ["a, c", "c, a", "a, b", "b, z"])
def test_what_a_comparison_chooses_keeps_its_digits(tmp_path: Path, operands: str) -> None:
    zero, five = "z = Constant<value = int32 {0}>()", "c = Constant<value = int32 {5}>()"
    check(tmp_path, "int32", f"{zero} {five} k = Less(b, z) y = Where(k, {operands})", "int32")


@pytest.mark.parametrize("number", [5, -5, (1 << 24) - 1])
def test_a_comparison_with_a_small_constant_stays_as_it_is(tmp_path: Path, number: int) -> None:
    text = f"c = Constant<value = int32 {{{number}}}>() y = Less(a, c)"
    check(tmp_path, "int32", text, "bool")
    written = (tmp_path / "model.xml").read_text(encoding="utf-8")
    assert 'type="Less"' in written
    assert 'type="Maximum"' not in written


def test_all_comparisons_of_onnx_are_known() -> None:
    assert set(KINDS) == {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"}


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_a_choice_among_no_elements(tmp_path: Path, kind: str) -> None:
    """Written as arithmetic it ends the process."""
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 14]> g ({kind}[3, 0, 5] x) => ({kind}[3, 0, 5] y) {{ y = Trilu (x) }}'
    )
    runner = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "model"))
    assert runner.run({"x": np.zeros((3, 0, 5), kind)})["y"].shape == (3, 0, 5)
