"""Slopes of PRelu that OpenVINO takes along another axis: that it still does, and that those converted are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest

import edgekit_openvino
from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

RANDOM = np.random.default_rng(3)


def model(body: str, x: tuple[int, ...], slopes: tuple[int, ...]) -> onnx.ModelProto:
    """A model whose input and output have the given shape; ``w`` has as many rows as the last axis."""
    sizes = ", ".join(map(str, x))
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 16]>\ng (float[{sizes}] x) => (float[{sizes}] y) {{ {body} }}'
    )
    arrays = {"s": RANDOM.uniform(0.1, 0.9, slopes), "w": RANDOM.normal(size=(x[-1], x[-1])), "b": np.ones(x[-1])}
    for name, array in arrays.items():
        if any(name in node.input for node in proto.graph.node):
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(np.float32), name))
    return proto


@pytest.mark.parametrize(
    ("body", "x", "slopes"),
    [
        ("y = PRelu(x, s)", (1, 5, 5), (5,)),
        ("n = Neg(x)  y = PRelu(n, s)", (2, 5, 4, 5), (5,)),
        ("p = MatMul(x, w)  y = PRelu(p, s)", (1, 5, 4, 5), (5, 1, 1)),
        ("p = MatMul(x, w)  a = Add(p, b)  e = Elu(a)  y = PRelu(e, s)", (2, 5, 4, 5), (1, 5, 1, 1)),
    ],
)
def test_slopes_stand_along_the_axis_that_onnx_has_them_along(
    body: str, x: tuple[int, ...], slopes: tuple[int, ...], tmp_path: Path
) -> None:
    proto = model(body, x, slopes)
    feeds = {"x": RANDOM.normal(size=x).astype(np.float32)}
    right = expected(proto, feeds)
    assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 0.01  # OpenVINO is still wrong
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, rtol=1e-5, atol=1e-5)


def test_slopes_of_another_number_than_a_product_has_columns_are_loaded(tmp_path: Path) -> None:
    proto = model("p = MatMul(x, w)  y = PRelu(p, s)", (1, 10, 4, 8), (10, 1, 1))
    feeds = {"x": RANDOM.normal(size=(1, 10, 4, 8)).astype(np.float32)}
    with pytest.raises(RuntimeError, match="data size: 10 OC: 8"):
        as_read(proto, feeds, tmp_path)  # OpenVINO still refuses it
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), expected(proto, feeds), rtol=1e-5, atol=1e-5)


def test_slopes_that_openvino_has_right_stay_with_the_operation(tmp_path: Path) -> None:
    for body, slopes in (
        ("y = PRelu(x, s)", (5, 1, 1)),
        ("p = MatMul(x, w)  y = PRelu(p, s)", (1,)),
        ("p = MatMul(x, w)  y = PRelu(p, s)", (1, 1, 1, 5)),
    ):
        path = edgekit_openvino.convert(model(body, (1, 5, 4, 5), slopes), tmp_path / "m")
        network = openvino.Core().read_model(path)
        assert "PRelu" in {operation.get_type_name() for operation in network.get_ops()}


@pytest.mark.parametrize("x", [(2, 3, 4), (2, 4, 4), (1, 3, 4, 3)])
def test_a_list_of_slopes_is_one_of_channels_before_version_7(x: tuple[int, ...], tmp_path: Path) -> None:
    proto = model("y = PRelu(x, s)", x, (x[1],))
    proto.opset_import[0].version = 6
    given = RANDOM.normal(size=x).astype(np.float32)
    slopes = onnx.numpy_helper.to_array(proto.graph.initializer[0]).reshape(-1, *[1] * (len(x) - 2))
    found = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "model")).run({"x": given})["y"]
    np.testing.assert_allclose(found, np.where(given < 0, slopes * given, given), rtol=1e-6)
