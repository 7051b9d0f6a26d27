"""Axes that one number adds and OpenVINO loses: that it still does, and that converted models keep them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

X = np.random.default_rng(3).uniform(0.5, 2, (3, 7)).astype(np.float32)


def model(body: str, number: tuple[int, ...], axes: int) -> onnx.ModelProto:
    """A model whose output has the given number of axes; ``c`` is one number."""
    sizes = ", ".join("abcd"[:axes])
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]>\ng (float[3, 7] x) => (float[{sizes}] y) '
        f"<int64[1] all = {{-1}}, int64[1] first = {{0}}> {{ {body} }}"
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.full(number, 1.5, np.float32), "c"))
    return proto


@pytest.mark.parametrize(
    ("body", "number", "shape"),
    [
        ("f = Reshape(x, all)  y = Mul(f, c)", (1, 1), (1, 21)),
        ("f = Reshape(x, all)  u = Unsqueeze(f, first)  y = Sub(u, c)", (1, 1, 1), (1, 1, 21)),
        ("t = Transpose(x)  y = Pow(t, c)", (1, 1, 1), (1, 7, 3)),
        ("t = Transpose(x)  s = Div(t, c)  y = ReduceSum <keepdims = 0> (s, first)", (1, 1, 1), (7, 3)),
        ("t = Transpose(x)  d = Add(c, c)  y = Max(t, d)", (1, 1, 1, 1), (1, 1, 7, 3)),
    ],
)
def test_one_number_of_more_axes_adds_them(
    body: str, number: tuple[int, ...], shape: tuple[int, ...], tmp_path: Path
) -> None:
    proto = model(body, number, len(shape))
    right = expected(proto, {"x": X})
    assert right.shape == shape
    assert as_read(proto, {"x": X}, tmp_path).shape != shape  # OpenVINO is still wrong
    got = converted(proto, {"x": X}, tmp_path)
    assert got.shape == shape
    np.testing.assert_allclose(got, right, rtol=1e-5)
