"""Quantization along other axes than the channels: what OpenVINO makes of it, and that converted models are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

RANDOM = np.random.default_rng(3)
SCALES = np.array([0.0064, 0.0058, 0.0125], np.float32)


def model(layer: str, shape: tuple[int, ...], axis: int, dtype: str = "float") -> onnx.ModelProto:
    """A model whose layer gives ``c``, which is quantized along one of three axes."""
    sizes = ", ".join(map(str, shape))
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 19]>\ng ({dtype}[{sizes}] x) => ({dtype}[{sizes}] y) '
        f"<uint8[3] z = {{128, 120, 0}}> {{ {layer}"
        f" q = QuantizeLinear <axis = {axis}> (c, s, z)  y = DequantizeLinear <axis = {axis}> (q, s, z) }}"
    )
    kind = np.float32 if dtype == "float" else np.float16
    arrays = {"s": SCALES, "w": RANDOM.normal(size=(3, 3) + (1,) * (len(shape) - 2))}
    for name, array in arrays.items():
        if any(name in node.input for node in proto.graph.node):
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(kind), name))
    return proto


def test_behind_a_convolution_with_as_many_channels(tmp_path: Path) -> None:
    for layer in ("c = Conv (x, w)", "f = Conv (x, w)  c = Relu (f)"):
        for shape, axis in (((2, 3, 3), 2), ((2, 3, 3, 5), -2)):
            proto = model(layer, shape, axis)
            feeds = {"x": RANDOM.normal(size=shape).astype(np.float32)}
            right = expected(proto, feeds)
            assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 0.1  # OpenVINO is still wrong
            np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, atol=1e-6)


def test_behind_a_pool(tmp_path: Path) -> None:
    proto = model("c = AveragePool <kernel_shape = [1]> (x)", (2, 3, 3), 2)
    feeds = {"x": RANDOM.normal(size=(2, 3, 3)).astype(np.float32)}
    with pytest.raises(RuntimeError, match="non per-tensor quantization for axis"):
        as_read(proto, feeds, tmp_path)  # OpenVINO still refuses it
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), expected(proto, feeds), atol=1e-6)


def test_half_precision(tmp_path: Path) -> None:
    proto = model("c = Neg (x)", (2, 3, 3), 2, "float16")
    feeds = {"x": RANDOM.normal(size=(2, 3, 3)).astype(np.float16)}
    right = expected(proto, feeds).astype(np.float32)
    got = converted(proto, feeds, tmp_path).astype(np.float32)
    assert np.abs(got - right).max() <= SCALES.max() * 1.01  # one step: quotients of half precision


def test_limits_along_the_channels_stay_with_the_plugin(tmp_path: Path) -> None:
    import openvino

    import edgekit_openvino

    path = edgekit_openvino.convert(model("c = Conv (x, w)", (2, 3, 5, 5), 1), tmp_path / "model")
    kinds = [operation.get_type_name() for operation in openvino.Core().read_model(path).get_ordered_ops()]
    assert kinds.count("FakeQuantize") == 1
