from __future__ import annotations

import numpy as np
import onnx
import pytest

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError


def levels(rng, dtype, *shape):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("fed", [(0,), (0, 1, 2, 3)], ids=["constant", "computed"])
@pytest.mark.parametrize("b_dtype", [np.int8, np.uint8])
def test_matmul_integer_agrees(agrees, rng, b_dtype, fed):
    inputs = [levels(rng, np.uint8, 2, 3, 40), levels(rng, b_dtype, 40, 5), np.uint8(7), levels(rng, b_dtype, 5)]
    agrees("MatMulInteger", inputs, fed=fed, outputs=["int32"], against="reference")


@pytest.mark.parametrize("fed", [(0,), (0, 1)], ids=["constant", "computed"])
@pytest.mark.parametrize(("a", "b"), [((40,), (40, 5)), ((40,), (2, 40, 5)), ((3, 40), (40,)), ((2, 3, 40), (40,))])
def test_matmul_integer_of_a_vector_agrees(agrees, rng, a, b, fed):
    inputs = [levels(rng, np.uint8, *a), levels(rng, np.int8, *b), np.uint8(7), np.int8(-3)]
    agrees("MatMulInteger", inputs, fed=fed, outputs=["int32"])


def test_matmul_integer_of_two_vectors_is_refused(lower):
    with pytest.raises(UnsupportedOpsError, match="needs a matrix, found ranks 1 and 1"):
        lower("MatMulInteger", [np.ones(4, np.uint8), np.ones(4, np.int8)], outputs=["int32"])


def test_sums_beyond_float32_are_exact(lower):
    a, b = np.full((1, 2001), 255, np.uint8), np.full((2001, 1), -127, np.int8)
    a[0, 0] = 254  # the exact sum is odd, and so large that float32 has only multiples of 4
    (actual,) = lower("MatMulInteger", [a, b], outputs=["int32"])
    assert actual.item() == -127 * (2000 * 255 + 254)


def test_sums_beyond_two_digits_are_refused(lower):
    a, b = np.full((1, 9000), 255, np.uint8), np.full((9000, 1), 127, np.int8)
    with pytest.raises(UnsupportedOpsError, match="beyond what float32"):
        lower("MatMulInteger", [a, b], outputs=["int32"])


@pytest.mark.parametrize("fed", [(0,), (0, 1, 2)])
@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 1, 1, 1], "strides": [2, 1]}, {"dilations": [2, 2]}], ids=str)
def test_conv_integer_agrees(agrees, rng, attributes, fed):
    inputs = [levels(rng, np.uint8, 1, 3, 7, 7), levels(rng, np.uint8, 4, 3, 3, 3), np.uint8(9)]
    agrees("ConvInteger", inputs, fed=fed, outputs=["int32"], **attributes)


@pytest.mark.parametrize("fed", [(0,), tuple(range(8))])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_qlinear_matmul_agrees(agrees, rng, dtype, fed):
    inputs = [
        *(levels(rng, dtype, 4, 6), np.float32(0.021), dtype(3)),
        *(levels(rng, dtype, 6, 5), np.float32(0.013), dtype(5)),
        *(np.float32(0.17), dtype(4)),
    ]
    agrees("QLinearMatMul", inputs, fed=fed, outputs=[np.dtype(dtype).name])


@pytest.mark.parametrize("fed", [(0,), (0, 1, 2, 3, 4, 6, 8)])
@pytest.mark.parametrize("per_channel", [False, True])
def test_qlinear_conv_agrees(agrees, rng, per_channel, fed):
    scale = (rng.random(4) * 0.01 + 0.01).astype(np.float32) if per_channel else np.float32(0.013)
    zero = np.zeros(4, np.int8) if per_channel else np.int8(0)
    inputs = [
        *(levels(rng, np.uint8, 1, 3, 6, 6), np.float32(0.021), np.uint8(100)),
        *(levels(rng, np.int8, 4, 3, 3, 3), scale, zero),
        *(np.float32(0.1), np.uint8(120)),
        rng.integers(-9999, 9999, 4, np.int32),
    ]
    agrees("QLinearConv", inputs, fed=fed, outputs=["uint8"], pads=[1, 1, 1, 1])


def test_float16_programs_keep_integers_exact(tmp_path, rng):
    a, b = levels(rng, np.uint8, 3, 300), levels(rng, np.int8, 300, 4)
    node = onnx.helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    infos = [
        onnx.helper.make_tensor_value_info("a", onnx.TensorProto.UINT8, a.shape),
        onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None),
    ]
    graph = onnx.helper.make_graph([node], "g", infos[:1], infos[1:], [onnx.numpy_helper.from_array(b, "b")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float16")
    np.testing.assert_array_equal(edgekit_coreml.load(package).run({"a": a})["y"], a.astype(int) @ b.astype(int))
    weights = package / "Data/com.apple.CoreML/weights/weight.bin"
    assert weights.stat().st_size < 2 * b.size
