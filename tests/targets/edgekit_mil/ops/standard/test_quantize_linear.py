from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from coremltools.proto import Model_pb2

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError


def operations(package):
    """How often each operation occurs in a package's program."""
    model = Model_pb2.Model()
    model.ParseFromString((package / "Data/com.apple.CoreML/model.mlmodel").read_bytes())
    (function,) = model.mlProgram.functions.values()
    return Counter(op.type for op in function.block_specializations[function.opset].operations)


def weight_bytes(package):
    return (package / "Data/com.apple.CoreML/weights/weight.bin").stat().st_size


def levels(rng, dtype, *shape):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("fed", [(0,), (0, 1, 2)])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_quantize_agrees(agrees, rng, dtype, axis, fed):
    x = rng.standard_normal((3, 4, 5), dtype=np.float32) * 300
    count = () if axis is None else (x.shape[axis],)
    scale = (rng.random(count) + 0.5).astype(np.float32)
    zero_point = rng.integers(0, 9, count).astype(dtype)
    name = np.dtype(dtype).name
    agrees("QuantizeLinear", [x, scale, zero_point], fed=fed, outputs=[name], axis=axis or 0, opset=21)


def test_ties_go_to_even(lower):
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.0], np.float32)
    (actual,) = lower("QuantizeLinear", [x, np.float32(1), np.int8(0)], outputs=["int8"])
    np.testing.assert_array_equal(actual, [0, 2, 2, 0, -2, 3])


@pytest.mark.parametrize("fed", [(0,), (0, 1, 2)])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32])
def test_dequantize_agrees(agrees, rng, dtype, axis, fed):
    x = rng.integers(0, 120, (3, 4, 5)).astype(dtype)
    count = () if axis is None else (x.shape[axis],)
    scale = (rng.random(count) + 0.5).astype(np.float32)
    zero_point = (rng.integers(0, 9, count) * (dtype != np.int32)).astype(dtype)
    agrees("DequantizeLinear", [x, scale, zero_point], fed=fed, axis=axis or 0, opset=21)


@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("fed", [(0,), (0, 1, 2)])
def test_blocks_agree(agrees, rng, op_type, fed):
    to_integers = op_type == "QuantizeLinear"
    x = rng.standard_normal((4, 6), dtype=np.float32) * 50 if to_integers else levels(rng, np.int8, 4, 6)
    inputs = [x, rng.random((4, 2), np.float32) + 0.5, levels(rng, np.int8, 4, 2)]
    outputs = ["int8" if to_integers else "float32"]
    agrees(op_type, inputs, fed=fed, outputs=outputs, axis=1, block_size=3, opset=21, against="reference")


def test_floats_of_eight_bits_are_refused(tmp_path):
    node = onnx.helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])
    scale = onnx.helper.make_tensor("scale", onnx.TensorProto.FLOAT, [], [1.0])
    zero = onnx.helper.make_tensor("zero", onnx.TensorProto.FLOAT8E4M3FN, [], [0.0])
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT8E4M3FN, [2])
    graph = onnx.helper.make_graph([node], "g", [x], [y], [scale, zero])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    with pytest.raises(UnsupportedOpsError, match="float8e4m3fn"):
        edgekit_coreml.convert(model, tmp_path / "m")


@pytest.fixture
def qdq_network(rng):
    """Convolution and pooling with 8-bit activations and weights, as quantizers write them."""
    make = onnx.helper.make_node
    weights = {
        "scale": np.float32(0.05),
        "zero": np.int8(3),
        "w": levels(rng, np.int8, 8, 3, 3, 3),
        "w_scale": (rng.random(8) * 0.01 + 0.01).astype(np.float32),
        "w_zero": np.zeros(8, np.int8),
    }
    nodes = [
        make("QuantizeLinear", ["x", "scale", "zero"], ["x_q"]),
        make("DequantizeLinear", ["x_q", "scale", "zero"], ["x_dq"]),
        make("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_dq"], axis=0),
        make("Conv", ["x_dq", "w_dq"], ["conv"], pads=[1, 1, 1, 1]),
        make("QuantizeLinear", ["conv", "scale", "zero"], ["c_q"]),
        make("DequantizeLinear", ["c_q", "scale", "zero"], ["c_dq"]),
        make("MaxPool", ["c_dq"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        make("QuantizeLinear", ["pool", "scale", "zero"], ["p_q"]),
        make("DequantizeLinear", ["p_q", "scale", "zero"], ["y"]),
    ]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 8, 8])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    initializers = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(nodes, "qdq", [x], [y], initializers)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", ["iOS16", "iOS17", "iOS18"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_quantized_weights_stay_in_eight_bits(qdq_network, tmp_path, rng, target, precision):
    package = edgekit_coreml.convert(qdq_network, tmp_path / "m", deployment_target=target, precision=precision)
    found = operations(package)
    assert found["constexpr_affine_dequantize"] == 1
    assert weight_bytes(package) < 2 * 8 * 3 * 3 * 3 + 256
    # From iOS 17 on activations are in 8 bits too. The pair before pooling says nothing that the one after does not.
    assert found["quantize"] == found["dequantize"] == (0 if target == "iOS16" else 2)
    x = rng.standard_normal((1, 3, 8, 8), dtype=np.float32)
    (expected,) = _unoptimized(qdq_network).run(None, {"x": x})
    actual = edgekit_coreml.load(package).run({"x": x})["y"]
    if precision == "float32":
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)
    else:  # rounding to the grid turns an error of the last bit into one of a step, now and then
        assert np.sum((actual - expected) ** 2) < 1e-3 * np.sum(expected**2)


def _unoptimized(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("block", [0, 4])
@pytest.mark.parametrize("kind", [onnx.TensorProto.INT4, onnx.TensorProto.UINT4])
def test_four_bit_weights_stay_in_four_bits(tmp_path, rng, kind, block):
    low = -8 if kind == onnx.TensorProto.INT4 else 0
    values = rng.integers(low, low + 16, (16, 32))
    scales = (rng.random((4 if block else 1, 32)) + 0.5).astype(np.float32)
    scales = scales if block else scales[0]
    tensors = [
        onnx.helper.make_tensor("w", kind, values.shape, values.ravel()),
        onnx.numpy_helper.from_array(scales, "scale"),
        onnx.helper.make_tensor("zero", kind, scales.shape, np.full(scales.size, 3)),
    ]
    nodes = [
        onnx.helper.make_node(
            "DequantizeLinear", ["w", "scale", "zero"], ["dq"], axis=0 if block else 1, block_size=block
        ),
        onnx.helper.make_node("MatMul", ["x", "dq"], ["y"]),
    ]
    x_info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 16])
    y_info = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 32])
    graph = onnx.helper.make_graph(nodes, "g", [x_info], [y_info], tensors)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32")
    assert operations(package)["constexpr_blockwise_shift_scale"] == 1
    x = rng.standard_normal((2, 16), dtype=np.float32)
    spread = np.repeat(scales, block, axis=0) if block else scales
    np.testing.assert_allclose(
        edgekit_coreml.load(package).run({"x": x})["y"], x @ ((values - 3) * spread), rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("scale", [1e-5, 1e-9])
def test_scales_that_float16_has_not_stay_in_float32(tmp_path, scale):
    values = {"scale": np.float32(scale), "zero": np.int8(0)}
    nodes = [
        onnx.helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        onnx.helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        onnx.helper.make_node("Mul", ["d", "big"], ["y"]),
    ]
    values["big"] = np.float32(1 / scale / 1000)
    x_info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4])
    y_info = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])
    initializers = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]
    graph = onnx.helper.make_graph(nodes, "g", [x_info], [y_info], initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float16")
    found = operations(package)
    assert found["quantize"] == found["dequantize"] == 1
    x = np.array([0, 3, 50, 1000], np.float32) * np.float32(scale)
    np.testing.assert_allclose(
        edgekit_coreml.load(package).run({"x": x.astype(np.float32)})["y"], [0, 0.003, 0.05, 0.127], rtol=0.1, atol=1e-3
    )


@pytest.mark.parametrize("target", ["iOS16", "iOS17", "iOS18"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantized_tables_stay_in_eight_bits(tmp_path, rng, dtype, target):
    table = levels(rng, dtype, 200, 8)
    nodes = [
        onnx.helper.make_node("Gather", ["table", "x"], ["rows"]),
        onnx.helper.make_node("DequantizeLinear", ["rows", "scale", "zero"], ["y"]),
    ]
    values = {"table": table, "scale": np.float32(0.25), "zero": dtype(5)}
    x_info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [3])
    y_info = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, 8])
    initializers = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]
    graph = onnx.helper.make_graph(nodes, "g", [x_info], [y_info], initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", deployment_target=target)
    assert (target == "iOS16") == (operations(package)["dequantize"] == 0)
    x = np.array([3, 199, -1])
    expected = (table[x].astype(np.float32) - 5) * 0.25
    np.testing.assert_array_equal(edgekit_coreml.load(package).run({"x": x})["y"], expected)
    assert target == "iOS16" or weight_bytes(package) < 2 * table.size


@pytest.mark.parametrize("scale", [np.inf, np.nan])
@pytest.mark.parametrize(("op_type", "dtype"), [("QuantizeLinear", "int8"), ("DequantizeLinear", "float32")])
def test_scales_that_are_no_numbers_are_refused(lower, op_type, dtype, scale):
    x = np.ones((2, 3), np.float32 if op_type == "QuantizeLinear" else np.int8)
    with pytest.raises(UnsupportedOpsError, match="a scale is infinite or NaN"):
        lower(op_type, [x, np.float32(scale), np.int8(0)], outputs=[dtype])


def test_another_number_of_zero_points_than_of_scales_is_refused(lower):
    inputs = [np.ones((2, 3), np.uint8), np.float32([0.5]), np.zeros(3, np.uint8)]
    with pytest.raises(UnsupportedOpsError, match="has 3 zero points for 1 scales"):
        lower("DequantizeLinear", inputs, axis=1)
