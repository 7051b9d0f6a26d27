"""Convolutions along the height of tensors of width 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino
from edgekit_openvino.quick.upright_convolutions import lay_down_convolutions

STEPS = "pads = [2, 0, 1, 0], strides = [3, 1]"


def convolving(attributes: str, width: int = 1, kernel_width: int = 1, sizes: str = "2, 4, 40") -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 13]> g (float[{sizes}, {width}] x) => (float[a, b, c, d] y) {{ '
        f"h = Conv <{attributes}> (x, w, b) r = Relu (h) y = Neg (r) }}"
    )
    rng = np.random.default_rng(3)
    for name, shape in (("w", (5, 4, 7, kernel_width)), ("b", (5,))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name))
    return proto


def steps_of_convolutions(file: Path) -> list[list[int]]:
    network = openvino.Core().read_model(file)
    return [
        list(operation.get_attributes()["strides"])
        for operation in network.get_ops()
        if operation.get_type_name() == "Convolution"
    ]


@pytest.mark.parametrize(
    ("attributes", "steps"),
    [
        (STEPS, [1, 3]),
        (f"{STEPS}, dilations = [2, 1]", [1, 3]),
        ("pads = [2, 0, 1, 0], strides = [3, 2]", [1, 3]),
        ("strides = [2, 1], auto_pad = \"SAME_UPPER\"", None),
        ("pads = [3, 0, 3, 0]", [1, 1]),
    ],
)  # fmt: skip
def test_the_same_numbers(tmp_path: Path, attributes: str, steps: list[int] | None) -> None:
    proto = convolving(attributes)
    x = np.random.default_rng(4).normal(size=(2, 4, 40, 1)).astype(np.float32)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    file = edgekit_openvino.convert(proto, tmp_path / "model")
    found = edgekit_openvino.load(file).run({"x": x})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert steps is None or steps_of_convolutions(file) == [steps]


@pytest.mark.parametrize(
    "proto",
    [convolving(STEPS, width=3), convolving("pads = [2, 1, 1, 1], strides = [3, 1]", kernel_width=3)],
    ids=["a picture", "a kernel with a width"],
)
def test_others_stay(tmp_path: Path, proto: onnx.ModelProto) -> None:
    assert steps_of_convolutions(edgekit_openvino.convert(proto, tmp_path / "model")) == [[3, 1]]


def test_any_number_of_samples_of_any_height(tmp_path: Path) -> None:
    proto = convolving(STEPS, sizes="N, 4, H")
    file = edgekit_openvino.convert(proto, tmp_path / "model")
    assert steps_of_convolutions(file) == [[1, 3]]
    for count, height in ((1, 40), (3, 25)):
        x = np.random.default_rng(4).normal(size=(count, 4, height, 1)).astype(np.float32)
        (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
        np.testing.assert_allclose(edgekit_openvino.load(file).run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("quantized", "count"), [(True, 0), (False, 1)])
def test_integers_are_left_right_ahead_of_convolutions(quantized: bool, count: int) -> None:
    from openvino import opset13

    x = opset13.parameter([1, 4, 40, 1], np.float32)
    low, high = np.float32(-1), np.float32(1)
    data = opset13.fake_quantize(x, low, high, low, high, 256) if quantized else opset13.relu(x)
    result = opset13.convolution(data, np.ones((5, 4, 7, 1), np.float32), [3, 1], [0, 0], [0, 0], [1, 1])
    network = openvino.Model([result], [x])
    assert lay_down_convolutions(network) == count
    assert list(network.output(0).shape) == [1, 5, 12, 1]
