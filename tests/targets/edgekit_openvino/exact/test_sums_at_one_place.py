"""Sums with a depthwise convolution of 1×1 outputs, which OpenVINO still computes wrongly in an open batch of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_openvino
from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

CHANNELS = 16


def model(shape: str, nodes: str) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[{shape}] x) => (float[{shape}] y) {{
            d = Conv <pads = [1, 1, 1, 1], group = {CHANNELS}> (x, w) {nodes}
        }}"""
    )
    random = np.random.default_rng(5)
    arrays = {"w": random.standard_normal((CHANNELS, 1, 3, 3)), "c": random.uniform(0.3, 0.7, (CHANNELS, 1, 1))}
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()
    )
    return proto


def picture(*shape: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(6).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize(
    ("shape", "nodes"),
    [
        ("N, 16, 1, 1", "s = Sub (d, x) y = Mul (c, s)"),
        ("N, 16, H, W", "v = Abs (x) s = Add (v, d) r = Relu (s) y = Add (r, c)"),
        ("N, 16, 1, W", "m = Mul (d, c) s = Sub (m, x) y = PRelu (s, c)"),
    ],
)
def test_a_sum_at_one_place_in_a_batch_of_one(shape: str, nodes: str, tmp_path: Path) -> None:
    proto, feeds = model(shape, nodes), picture(1, CHANNELS, 1, 1)
    right = expected(proto, feeds)
    assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 0.05  # OpenVINO is still wrong
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "nodes"),
    [
        ("2, 16, 1, 1", "s = Sub (d, x) y = Mul (c, s)"),
        ("N, 16, 2, 2", "s = Sub (d, x) y = Mul (c, s)"),
        ("N, 16, H, W", "s = Sub (d, x) y = Relu (s)"),
    ],
)
def test_sums_that_openvino_computes_right_get_no_barrier(shape: str, nodes: str, tmp_path: Path) -> None:
    edgekit_openvino.convert(model(shape, nodes), tmp_path / "model")
    assert "IsNaN" not in (tmp_path / "model.xml").read_text()
