"""Pools that round up: OpenVINO counts a window that begins behind the elements, and converted models do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

SETTINGS = [
    ("kernel_shape = [2], strides = [3], pads = [1, 1]", 11),
    ("kernel_shape = [1], strides = [3]", 8),
    ("kernel_shape = [2], strides = [2], pads = [0, 1]", 8),
    ("kernel_shape = [3], strides = [3], pads = [2, 1]", 10),
    ('kernel_shape = [1], strides = [2], auto_pad = "VALID"', 8),
]


def model(settings: str, length: int | str, operator: str = "MaxPool", opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]>\ng (float[1, 2, {length}] x) => (float[a, b, c] y) '
        f"{{ z = {operator} <ceil_mode = 1, {settings}> (x)  y = Neg (z) }}"
    )


def numbers(length: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(length).normal(size=(1, 2, length)).astype(np.float32)}


@pytest.mark.parametrize("opset", [12, 22])
@pytest.mark.parametrize(("settings", "length"), SETTINGS)
def test_known_sizes(settings: str, length: int, opset: int, tmp_path: Path) -> None:
    proto, feeds = model(settings, length, opset=opset), numbers(length)
    right = expected(proto, feeds)
    assert as_read(proto, feeds, tmp_path).shape[-1] == right.shape[-1] + 1  # OpenVINO is still wrong
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path), right)


@pytest.mark.parametrize(("settings", "length"), SETTINGS)
def test_open_sizes(settings: str, length: int, tmp_path: Path) -> None:
    proto = model(settings, "L")
    assert (
        as_read(proto, numbers(length), tmp_path).shape[-1] == expected(proto, numbers(length)).shape[-1] + 1
    )  # OpenVINO is still wrong
    for size in range(length - 3, length + 3):
        np.testing.assert_array_equal(converted(proto, numbers(size), tmp_path), expected(proto, numbers(size)))


@pytest.mark.parametrize("counted", [0, 1])
def test_averages_of_known_sizes_are_taken(counted: int, tmp_path: Path) -> None:
    settings = f"kernel_shape = [2, 3], strides = [3, 2], pads = [0, 1, 1, 1], count_include_pad = {counted}"
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\ng (float[1, 2, 12, 7] x) => (float[a, b, c, d] y) '
        f"{{ y = AveragePool <ceil_mode = 1, {settings}> (x) }}"
    )
    feeds = {"x": 3 + np.random.default_rng(2).normal(size=(1, 2, 12, 7)).astype(np.float32)}
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), expected(proto, feeds), rtol=1e-5)


@pytest.mark.parametrize("operator", ["AveragePool", "LpPool", "MaxPool"])
def test_a_window_larger_than_the_image(operator: str, tmp_path: Path) -> None:
    """As in EfficientNet of the transformers library, whose pool is as wide as its channels are many."""
    proto, feeds = model("kernel_shape = [40], strides = [40]", 7, operator, opset=19), numbers(7)
    with pytest.raises(Exception, match="larger than the data shape"):
        as_read(proto, feeds, tmp_path)  # OpenVINO still refuses it
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), expected(proto, feeds), rtol=1e-5)
