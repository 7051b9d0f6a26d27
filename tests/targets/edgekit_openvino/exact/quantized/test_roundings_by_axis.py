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


PICKED = "d = Cast <to = 7> (q)  i = Clip (d, lowest, highest)  y = Gather (table, i)"


def rounded(kind: str, scale: float, zero: int, then: str, shape: str = "81") -> onnx.ModelProto:
    """A model that quantizes and reads the integers as such."""
    made = "float" if then is PICKED else kind
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]>\ng (float[{shape}] x) => ({made}[{shape}] y) '
        f"<{kind} z = {{{zero}}}, int64 lowest = {{-128}}, int64 highest = {{127}}>"
        f" {{ q = QuantizeLinear (x, s, z)  {then} }}"
    )
    table = np.arange(256, dtype=np.float32) ** 2
    for name, array in {"s": np.float32(scale), "table": table}.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return proto


@pytest.mark.parametrize(
    ("kind", "zero", "scale", "shape"),
    [
        ("uint8", 3, 1.0, "n"),
        ("int8", -7, 1.5, "81"),
        ("uint8", 64, 0.1, "81"),
        ("int8", 0, 1 / 255, "81"),
        ("uint8", 255, 0.1, "n"),
        ("int16", 21, 1 / 255, "81"),
    ],
)
def test_integers_halfway_between_two_steps(tmp_path: Path, kind: str, zero: int, scale: float, shape: str) -> None:
    """ONNX rounds the quotient to even before it adds the zero point."""
    x = (np.arange(-40, 41, dtype=np.float32) * np.float32(0.5)) * np.float32(scale)
    proto = rounded(kind, scale, zero, "y = Identity (q)", shape)
    np.testing.assert_array_equal(converted(proto, {"x": x}, tmp_path), expected(proto, {"x": x}))
    if zero % 2:  # OpenVINO is still wrong
        assert (as_read(proto, {"x": x}, tmp_path) != expected(proto, {"x": x})).any()


def test_integers_that_are_indices(tmp_path: Path) -> None:
    x = np.arange(-40, 41, dtype=np.float32) * np.float32(0.5)
    proto = rounded("uint8", 1.0, 3, PICKED)
    assert (as_read(proto, {"x": x}, tmp_path) != expected(proto, {"x": x})).any()  # OpenVINO is still wrong
    np.testing.assert_array_equal(converted(proto, {"x": x}, tmp_path), expected(proto, {"x": x}))


def test_numbers_that_are_made_floats_stay_with_the_plugin(tmp_path: Path) -> None:
    import openvino

    import edgekit_openvino

    proto = rounded("uint8", 1.0, 3, "r = Reshape (q, k)  y = DequantizeLinear (r, s, z)")
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([81]), "k"))
    network = openvino.Core().read_model(edgekit_openvino.convert(proto, tmp_path / "m"))
    assert "FakeQuantize" in [operation.get_type_name() for operation in network.get_ordered_ops()]


def test_limits_along_the_channels_stay_with_the_plugin(tmp_path: Path) -> None:
    import openvino

    import edgekit_openvino

    path = edgekit_openvino.convert(model("c = Conv (x, w)", (2, 3, 5, 5), 1), tmp_path / "model")
    kinds = [operation.get_type_name() for operation in openvino.Core().read_model(path).get_ordered_ops()]
    assert kinds.count("FakeQuantize") == 1
