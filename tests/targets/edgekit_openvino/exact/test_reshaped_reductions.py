"""Columns that are reshaped to rows and reduced, against ONNX Runtime: the result has no axis too many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

SHAPES = [((10, 1), (1, 1, 10)), ((10, 1), (1, 1, 1, 10)), ((3, 10, 1), (3, 1, 1, 10)), ((10, 1), (1, 10))]
KINDS = ["ReduceL2", "ReduceMax", "ReduceMean", "ReduceSum"]


def model(kind: str, given: tuple[int, ...], target: tuple[int, ...], *, keep: int) -> onnx.ModelProto:
    rank = len(target) - 1 + keep
    sizes = ", ".join("ABCD"[:rank])
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 13]> g (float[{", ".join(map(str, given))}] x) => (float[{sizes}] y)'
        f" <int64[{len(target)}] target = {{{', '.join(map(str, target))}}}, int64[1] last = {{-1}}>"
        f" {{ r = Reshape (x, target) y = {kind} <keepdims = {keep}{'' if kind == 'ReduceSum' else ', axes = [-1]'}>"
        f" (r{', last' if kind == 'ReduceSum' else ''}) }}"
    )


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("given", "target"), SHAPES, ids=str)
def test_it_is_as_in_onnx_runtime(
    given: tuple[int, ...], target: tuple[int, ...], kind: str, keep: int, tmp_path: Path
) -> None:
    proto = model(kind, given, target, keep=keep)
    feeds = {"x": np.random.default_rng(0).standard_normal(given).astype(np.float32)}
    found, wanted = converted(proto, feeds, tmp_path), expected(proto, feeds)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_openvino_still_gives_an_axis_too_many(tmp_path: Path) -> None:
    found = as_read(model("ReduceSum", (10, 1), (1, 1, 10), keep=0), {"x": np.ones((10, 1), np.float32)}, tmp_path)
    assert found.shape == (1, 1, 1)
