"""Channels in another order: OpenVINO still permutes the weights behind them wrongly; converted models are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgekit_openvino.exact.permutations import keep_order
from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

RANDOM = np.random.default_rng(7)
CONV = "y = Conv (h, w)"
SLOPES = "p = PRelu (h, c) y = Conv (p, w)"


def model(body: str, channels: int, **arrays: np.ndarray) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, {channels}, 5] x) => (float[1, 4, 5] y) {{ {body} }}'
    )
    arrays = {"w": RANDOM.standard_normal((4, channels, 1)), "c": RANDOM.standard_normal((channels, 1)), **arrays}
    used = {name for node in proto.graph.node for name in node.input}
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(np.int64 if name == "i" else np.float32), name)
        for name, array in arrays.items()
        if name in used
    )
    return proto


def image(channels: int) -> dict[str, np.ndarray]:
    return {"x": RANDOM.standard_normal((1, channels, 5)).astype(np.float32)}


@pytest.mark.parametrize(
    ("body", "order"),
    [
        (f"h = Gather <axis = 1> (x, i) {CONV}", [2, 0, 1]),
        (f"h = Gather <axis = 1> (x, i) {CONV}", [6, 7, 4, 0, 1, 2, 3, 5]),
        (f"g = Gather <axis = 1> (x, i) h = Mul (g, c) {CONV}", [1, 2, 3, 0]),
        (f"h = Gather <axis = 1> (x, i) {SLOPES}", [3, 2, 1, 0]),
    ],
)
def test_an_order_of_a_gather(body: str, order: list[int], tmp_path: Path) -> None:
    proto, feeds = model(body, len(order), i=np.array(order)), image(len(order))
    right = expected(proto, feeds)
    assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 0.1  # OpenVINO is still wrong
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ["j, k, o", "k, o, j"])
def test_an_order_of_parts(order: str, tmp_path: Path) -> None:
    proto = model(f"o, j, k = Split <axis = 1> (x) h = Concat <axis = 1> ({order}) {CONV}", 3)
    feeds = image(3)
    right = expected(proto, feeds)
    assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 0.1  # still
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("body", "channels", "read"),
    [
        ("o, j, k = Split <axis = 1> (x) h = Concat <axis = 1> (k, j, o)", 6, 6),
        ("o, j, k, l = Split <axis = 1> (x) h = Concat <axis = 1> (k, j, o)", 4, 3),
    ],
)
def test_parts_of_several_channels_and_some_of_the_parts(body: str, channels: int, read: int, tmp_path: Path) -> None:
    proto = model(f"{body} {CONV}", channels, w=RANDOM.standard_normal((4, read, 1)))
    feeds = image(channels)
    with pytest.raises(RuntimeError, match="channel"):  # still
        as_read(proto, feeds, tmp_path)
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), expected(proto, feeds), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 1, 0, 2], [2]])
def test_other_gathers_stay_as_they_are(order: list[int]) -> None:
    """They take some of the channels, or one several times."""
    from openvino import opset13

    x = opset13.parameter([1, 4, 5], np.float32)
    gather = opset13.gather(x, opset13.constant(np.array(order)), opset13.constant(np.array(1)))
    keep_order(gather)
    assert int(gather.input_value(2).get_node().get_data()) == 1
