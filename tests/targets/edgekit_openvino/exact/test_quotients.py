"""Quotients that OpenVINO rounds twice: that it still does, and that those are right whose rounding can be told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_openvino
from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

NUMBERS = np.arange(1, 200, dtype=np.float32)
RANDOM = np.random.default_rng(3)


def parsed(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]>\ng {body}')


@pytest.mark.parametrize("size", ["n", "206"])
def test_a_number_divided_by_itself_is_one(tmp_path: Path, size: str) -> None:
    proto = parsed(f"(float[{size}] x) => (float[{size}] y) {{ y = Div(x, x) }}")
    feeds = {"x": np.array([*NUMBERS, 0, -0.0, np.inf, -np.inf, np.nan, 3e38, -1e-30], np.float32)}
    plain = as_read(proto, feeds, tmp_path)
    assert (plain[: len(NUMBERS)] != 1).any()  # OpenVINO is still wrong
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path), expected(proto, feeds))


@pytest.mark.parametrize("cut", ["Floor(q)", "Ceil(q)", "Cast <to = 6> (q)"], ids=["Floor", "Ceil", "Cast"])
@pytest.mark.parametrize("size", ["n", "41601"])
def test_quotients_that_are_cut_off(tmp_path: Path, cut: str, size: str) -> None:
    kind = "int32" if "Cast" in cut else "float"
    proto = parsed(f"(float[{size}] a, float[{size}] b) => ({kind}[{size}] y) {{ q = Div(a, b) y = {cut} }}")
    first, second = (grid.ravel() for grid in np.meshgrid(NUMBERS, NUMBERS))
    others = RANDOM.uniform(-100, 100, 2000).astype(np.float32)
    divisors = RANDOM.uniform(0.1, 9, 2000).astype(np.float32)
    feeds = {"a": np.concatenate([first * second, others]), "b": np.concatenate([second, divisors])}
    reference = expected(proto, feeds)
    assert (as_read(proto, feeds, tmp_path) != reference).sum() > 100  # OpenVINO is still wrong
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path), reference)


def test_quotients_by_constants_that_are_cut_off(tmp_path: Path) -> None:
    proto = parsed("(float[n] x) => (float[n] y) <float c = {41}> { q = Div(x, c) y = Floor(q) }")
    feeds = {"x": np.arange(-1000, 1000).astype(np.float32) * 41}
    reference = expected(proto, feeds)
    assert (as_read(proto, feeds, tmp_path) != reference).sum() > 100  # OpenVINO is still wrong
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path), reference)


def test_quotients_that_overflow_stay_infinite(tmp_path: Path) -> None:
    proto = parsed("(float[n] a, float[n] b) => (float[n] y) { q = Div(a, b) y = Floor(q) }")
    feeds = {
        "a": np.array([1, -1, 0, np.inf, np.nan, 1e38, 6, 1], np.float32),
        "b": np.array([0, 0, 0, 2, 1, 1e-3, np.inf, 3e38], np.float32),
    }
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path), expected(proto, feeds))


@pytest.mark.parametrize(
    "body",
    [
        "(float[n] x, float[n] z) => (float[n] y) { y = Div(x, z) }",
        "(float[n] x, float[n] z) => (float[n] y) <float c = {2}> { q = Div(x, z) s = Sub(q, c) y = Mul(s, c) }",
        "(float[n, 2] x) => (int64[2] y) <float c = {3}> { s = Shape(x) f = Cast <to = 1> (s) q = Div(f, c)"
        " y = Cast <to = 7> (q) }",
    ],
    ids=["nothing tells", "little amplified", "of sizes"],
)
def test_other_quotients_are_left_as_they_are(tmp_path: Path, body: str) -> None:
    topology = edgekit_openvino.convert(parsed(body), tmp_path / "model").read_text()
    assert 'type="Select"' not in topology
    assert 'type="Divide"' in topology or "int64[2]" in body
