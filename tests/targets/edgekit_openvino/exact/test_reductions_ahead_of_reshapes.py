"""Reductions that drop axes, and what reshapes their results, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

# By name: the sizes, of which N is open; the reduced axes; what reshapes the result.
CASES = {
    "rows in a column": ((3, 4, 5), (1,), "Reshape (z, column)"),
    "rows of an open batch": (("N", 4, 5), (1,), "Reshape (z, column)"),
    "a batch of 1 last": ((1, 4, 13), (1,), "Transpose <perm = [1, 0]> (z)"),
    "two axes": ((3, 4, 5, 2), (1, 3), "Reshape (z, column)"),
    "behind a transpose": ((1, 4, 13), (2,), "Transpose <perm = [1, 0]> (z)"),
    "axes kept": ((3, 4, 5), (1,), "Unsqueeze (z, one)"),
}


def reduced(name: str, operator: str, kind: str) -> onnx.ModelProto:
    sizes, axes, reshape = CASES[name]
    found = "A, B, C" if reshape.startswith("Unsqueeze") else "A, B"
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g ({kind}[{", ".join(map(str, sizes))}] x) => ({kind}[{found}] y)
        <int64[{len(axes)}] axes = {{{", ".join(map(str, axes))}}}, int64[2] column = {{-1, 1}}, int64[1] one = {{1}}>
        {{
            {"t = Transpose <perm = [0, 2, 1]> (x)" if name == "behind a transpose" else "t = Identity (x)"}
            z = {operator} <keepdims = 0> (t, axes)
            y = {reshape}
        }}"""
    )


def feeds_of(name: str, rng: np.random.Generator, dtype: str) -> dict[str, np.ndarray]:
    sizes = [3 if size == "N" else size for size in CASES[name][0]]
    return {"x": rng.integers(-9, 9, sizes).astype(dtype)}


@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceMax", "ReduceSum"])
@pytest.mark.parametrize("name", CASES)
def test_it_is_as_in_onnx_runtime(name: str, operator: str, tmp_path: Path) -> None:
    model, feeds = reduced(name, operator, "float"), feeds_of(name, np.random.default_rng(4), "float32")
    np.testing.assert_allclose(converted(model, feeds, tmp_path), expected(model, feeds), rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_integers_are_as_in_onnx_runtime(name: str, tmp_path: Path) -> None:
    model, feeds = reduced(name, "ReduceSum", "int32"), feeds_of(name, np.random.default_rng(4), "int32")
    np.testing.assert_array_equal(converted(model, feeds, tmp_path), expected(model, feeds))


def test_openvino_still_takes_the_reshape_away(tmp_path: Path) -> None:
    name = "rows in a column"
    model, feeds = reduced(name, "ReduceMean", "float"), feeds_of(name, np.random.default_rng(4), "float32")
    assert expected(model, feeds).shape == (15, 1)
    assert as_read(model, feeds, tmp_path).shape == (3, 5)
