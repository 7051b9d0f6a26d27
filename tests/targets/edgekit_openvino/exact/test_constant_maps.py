"""Maps of constant factors ahead of convolutions, which OpenVINO still moves into the weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_openvino
from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected


def model(nodes: str, size: str, **arrays: np.ndarray) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, 2, {size}] x) => (float y) {{ r = Relu (x) {nodes} }}'
    )
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()
    )
    return proto


@pytest.mark.parametrize("op", ["Mul", "Div"])
@pytest.mark.parametrize(
    ("size", "factors", "weights", "convolution"),
    [
        ("7, 7", (7, 7), (1, 2, 7, 7), "Conv <pads = [3, 3, 3, 3]>"),
        ("3, 3", (1, 1, 3, 3), (4, 2, 3, 3), "Conv <pads = [1, 1, 1, 1]>"),
        ("5", (5,), (4, 2, 5), "Conv <pads = [2, 2]>"),
        ("3, 3", (3, 3), (2, 1, 3, 3), "Conv <pads = [1, 1, 1, 1], group = 2>"),
        ("3, 3", (3, 3), (2, 4, 3, 3), "ConvTranspose"),
    ],
)
def test_a_map_of_the_kernels_size(
    op: str, size: str, factors: tuple[int, ...], weights: tuple[int, ...], convolution: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(3)
    proto = model(
        f"p = {op} (r, c) y = {convolution} (p, w)",
        size,
        c=random.uniform(0.5, 2, factors),
        w=random.standard_normal(weights),
    )
    feeds = {"x": random.standard_normal([1, 2, *map(int, size.split(","))]).astype(np.float32)}

    np.testing.assert_allclose(converted(proto, feeds, tmp_path), expected(proto, feeds), rtol=1e-4, atol=1e-4)


def test_openvino_still_moves_such_a_map_into_the_weights(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    factors, weights = random.uniform(0.5, 2, (3, 3)), random.standard_normal((4, 2, 3, 3))
    proto = model("p = Mul (r, c) y = Conv <pads = [1, 1, 1, 1]> (p, w)", "3, 3", c=factors, w=weights)
    feeds = {"x": random.standard_normal((1, 2, 3, 3)).astype(np.float32)}

    assert np.abs(as_read(proto, feeds, tmp_path) - expected(proto, feeds)).max() > 0.1


def test_factors_of_channels_get_no_barrier(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    arrays = {"c": random.uniform(0.5, 2, (1, 2, 1, 1)), "w": random.standard_normal((4, 2, 3, 3))}
    proto = model("p = Mul (r, c) y = Conv <pads = [1, 1, 1, 1]> (p, w)", "3, 3", **arrays)

    edgekit_openvino.convert(proto, tmp_path / "model")

    assert "IsNaN" not in (tmp_path / "model.xml").read_text()
