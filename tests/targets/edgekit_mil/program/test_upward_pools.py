"""Pools of open sizes that round up, as ONNX Runtime computes them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.helper import make_node

import edgekit_coreml
from tests.targets.edgekit_mil.program.test_flexible_shapes import assert_agrees, network

LENGTHS = {
    "windows that begin in the padding behind": {"kernel_shape": [2], "strides": [2], "pads": [0, 1]},
    "windows of one element": {"kernel_shape": [1], "strides": [3]},
    "gaps between windows": {"kernel_shape": [2], "strides": [3], "pads": [1, 0]},
    "no padding by name": {"kernel_shape": [2], "strides": [3], "auto_pad": "VALID"},
    "a window at each element": {"kernel_shape": [3], "pads": [2, 1]},
    "much padding": {"kernel_shape": [3], "strides": [2], "pads": [2, 2]},
}
KINDS = {"MaxPool": {}, "AveragePool": {}, "AveragePool, padding counts": {"count_include_pad": 1}, "LpPool": {}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", LENGTHS.values(), ids=LENGTHS)
def test_sequences_of_any_length(tmp_path, rng, settings, kind):
    node = make_node(kind.split(",")[0], ["x"], ["y"], ceil_mode=1, **settings, **KINDS[kind])
    model = network([1, 2, "l"], [node], {}, opset=19)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"l": range(3, 12)})
    assert_agrees(model, package, [(1, 2, length) for length in range(3, 12)], rng)


@pytest.mark.parametrize("counted", [0, 1])
def test_averages_of_pictures_of_any_size(tmp_path, rng, counted):
    settings = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1], "count_include_pad": counted}
    model = network([1, 3, "h", "w"], [make_node("AveragePool", ["x"], ["y"], ceil_mode=1, **settings)], {})
    dimensions = {"h": range(4, 17), "w": range(4, 17)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(1, 3, 4, 4), (1, 3, 16, 9), (1, 3, 7, 16), (1, 3, 5, 6)], rng)


def test_infinite_numbers_stay_in_their_windows(tmp_path):
    node = make_node("AveragePool", ["x"], ["y"], ceil_mode=1, kernel_shape=[2], strides=[2])
    package = edgekit_coreml.convert(network([1, 1, "l"], [node], {}), tmp_path / "m", dimensions={"l": range(2, 9)})
    x = np.array([[[1, 3, np.inf, 1, 2]]], np.float32)
    np.testing.assert_array_equal(edgekit_coreml.load(package).run({"x": x})["y"], [[[2, np.inf, 2]]])


def test_padding_that_no_window_reaches_beside_an_open_size(tmp_path, rng):
    settings = {"kernel_shape": [3, 3], "strides": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    model = network([1, 1, "h", 2], [make_node("AveragePool", ["x"], ["y"], ceil_mode=1, **settings)], {}, opset=22)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"h": range(1, 9)})
    assert_agrees(model, package, [(1, 1, height, 2) for height in range(1, 9)], rng)
