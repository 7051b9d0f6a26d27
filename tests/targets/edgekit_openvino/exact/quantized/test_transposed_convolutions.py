"""Transposed convolutions of integers: OpenVINO computes some wrong, and converted models do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgekit.instruction_sets import own_set
from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

RANDOM = np.random.default_rng(3)
QUANTIZED = "q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)"
BEHIND = "p = QuantizeLinear (a, s, z)  y = DequantizeLinear (p, s, z)"


def model(
    behind: str, channels: int, zero: np.generic, weights: np.ndarray, zero_points: np.ndarray, group: int = 1
) -> onnx.ModelProto:
    """A transposed convolution in steps of two, of quantized weights with one scale or one a channel that comes out."""
    axis = "<axis = 1>" if zero_points.ndim else ""
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 19]>\ng (float[2, {channels}, 4, 4] x) => (float[a, b, c, e] y)'
        f" {{ {QUANTIZED}  v = DequantizeLinear {axis} (w, t, n)"
        f"  c = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1], group = {group}> (d, v, b)  {behind} }}"
    )
    scales = np.full(zero_points.shape, 0.006, np.float32)
    held = {"s": np.float32(0.02), "z": zero, "w": weights, "t": scales, "n": zero_points}
    held["b"] = RANDOM.normal(0, 0.3, weights.shape[1] * group).astype(np.float32)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(each), name) for name, each in held.items())
    return proto


def numbers(channels: int) -> dict[str, np.ndarray]:
    return {"x": RANDOM.normal(size=(2, channels, 4, 4)).astype(np.float32)}


@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(128), np.int8(0)])
@pytest.mark.parametrize(
    ("zero_point", "one_a_channel", "group"), [(128, False, 1), (128, True, 1), (100, False, 1), (128, False, 4)]
)
def test_weights_with_a_zero_point(
    zero_point: int, one_a_channel: bool, group: int, zero: np.generic, tmp_path: Path
) -> None:
    weights = RANDOM.integers(zero_point - 60, zero_point + 60, (8, 4, 3, 3)).astype(np.uint8)
    zero_points = np.full((4,) if one_a_channel else (), zero_point, np.uint8)
    proto, feeds = model("y = Relu (c)", 8, zero, weights, zero_points, group), numbers(8)
    right = expected(proto, feeds)
    if group == 1 and not zero:
        assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 0.5  # still
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, atol=1e-4)


@pytest.mark.parametrize("channels", [3, 17, 16])
@pytest.mark.parametrize("behind", ["a = Elu (c)", "a = Relu (c)", "f = Sigmoid (c)  a = Mul (c, f)"])
def test_channels_that_are_no_multiple_of_four(behind: str, channels: int, tmp_path: Path) -> None:
    weights = RANDOM.integers(-60, 60, (channels, 8, 3, 3)).astype(np.int8)
    proto = model(f"{behind}  {BEHIND}", channels, np.uint8(0), weights, np.array(0, np.int8))
    feeds = numbers(channels)
    right = expected(proto, feeds)
    if own_set() == "amx" and channels % 4 and "Relu" not in behind:
        assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 0.1  # still
    found = converted(proto, feeds, tmp_path)
    np.testing.assert_allclose(found, right, atol=0.0201)  # one step, for a tie
    assert (np.abs(found - right) < 1e-6).mean() > 0.95


def test_networks_that_are_not_quantized_are_left_as_they_are(tmp_path: Path) -> None:
    import edgekit_openvino

    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 19]>\ng (float[1, 3, 4, 4] x, float[3, 2, 3, 3] w) =>'
        " (float[1, 2, 6, 6] y) { y = ConvTranspose (x, w) }"
    )
    assert 'type="Select"' not in edgekit_openvino.convert(proto, tmp_path / "model").read_text()
