"""Cast to bool of NaN, and of what an operation gives beside its first output: right in converted models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

PARTS = np.array([[3, 0, 0, 1], [0, 0, -1, 0]])


def parsed(body: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\ng {body}')


@pytest.mark.parametrize("kind", ["float", "int32", "int64", "int8"])
@pytest.mark.parametrize("size", ["2", "n"])
def test_the_second_part_of_a_split(kind: str, size: str, tmp_path: Path) -> None:
    halves = "a, b = Split <axis = 1> (x)"
    proto = parsed(f"({kind}[{size}, 4] x) => (bool[{size}, 2] y) {{ {halves}  y = Cast <to = 9> (b) }}", 12)
    feeds = {"x": PARTS.astype("float32" if kind == "float" else kind)}
    right = PARTS[:, 2:] != 0
    assert not np.array_equal(as_read(proto, feeds, tmp_path), right)  # OpenVINO still reads the first part
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path), right)


@pytest.mark.parametrize("size", ["2", "n"])
def test_the_places_of_the_greatest(size: str, tmp_path: Path) -> None:
    proto = parsed(
        f"(float[{size}, 4] x) => (bool[{size}, 2] y) <int64[1] k = {{2}}>"
        " { v, i = TopK <axis = 1> (x, k)  y = Cast <to = 9> (i) }"
    )
    feeds = {"x": PARTS.astype(np.float32)}
    with pytest.raises(RuntimeError, match="Default output not supported"):
        as_read(proto, feeds, tmp_path)  # OpenVINO still refuses it
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path), [[False, True], [False, True]])


@pytest.mark.parametrize(("kind", "dtype"), [("float", np.float32), ("float16", np.float16), ("double", np.float64)])
@pytest.mark.parametrize("cast", ["Cast <to = 9> (x)", "CastLike (x, like)"], ids=["Cast", "CastLike"])
def test_missing_and_small_numbers_are_true(kind: str, dtype: type, cast: str, tmp_path: Path) -> None:
    proto = parsed(f"({kind}[n] x) => (bool[n] y) <bool like = {{1}}> {{ y = {cast} }}")
    feeds = {"x": np.array([np.nan, 0, -0.0, 1, -0.25, np.inf, -np.inf, 1e-6], dtype)}
    right = np.array([True, False, False, True, True, True, True, True])
    np.testing.assert_array_equal(expected(proto, feeds), right)
    assert not as_read(proto, feeds, tmp_path)[0]  # OpenVINO is still wrong
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path), right)
