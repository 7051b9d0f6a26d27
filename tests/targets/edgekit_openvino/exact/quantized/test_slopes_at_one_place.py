"""Slopes behind convolutions of integers that give 1×1: OpenVINO mistakes them, and converted models do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_openvino
from edgekit.instruction_sets import WITHOUT_VNNI, own_set
from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

RANDOM = np.random.default_rng(3)


def model(batch: int | str, size: int, kernel: int) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 19]>\ng (float[{batch}, 8, {size}, {size}] x) => (float[a, b, c, e] y)'
        " <float s = {0.02}, uint8 z = {0}, int8 n = {0}, float t = {0.02}> { q = QuantizeLinear (x, s, z)"
        "  d = DequantizeLinear (q, s, z)  v = DequantizeLinear (w, t, n)  c = Conv (d, v)  y = PRelu (c, p) }"
    )
    weights = RANDOM.integers(-60, 60, (8, 8, kernel, kernel)).astype(np.int8)
    slopes = RANDOM.uniform(-0.5, 0.5, (8, 1, 1)).astype(np.float32)
    proto.graph.initializer.extend(
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(slopes, "p")]
    )
    return proto


@pytest.mark.parametrize(("size", "kernel"), [(1, 1), (3, 3)])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_batch_of_open_size(batch: int, size: int, kernel: int, tmp_path: Path) -> None:
    proto = model("N", size, kernel)
    feeds = {"x": RANDOM.normal(size=(batch, 8, size, size)).astype(np.float32)}
    right = expected(proto, feeds)
    if batch == 1 and own_set() not in WITHOUT_VNNI:
        assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 0.05  # still
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, atol=1e-5)


@pytest.mark.parametrize(("batch", "size"), [(1, 1), ("N", 4)])
def test_known_sizes_and_several_places_are_left_as_they_are(batch: int | str, size: int, tmp_path: Path) -> None:
    proto = model(batch, size, 1)
    assert 'type="Select"' not in edgekit_openvino.convert(proto, tmp_path / "plain").read_text()
    feeds = {"x": RANDOM.normal(size=(1, 8, size, size)).astype(np.float32)}
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), expected(proto, feeds), atol=1e-5)
