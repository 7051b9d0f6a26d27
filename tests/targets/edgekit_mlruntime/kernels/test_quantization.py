from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest


def onnx_op(op_type, feeds, **attributes):
    to_type = onnx.helper.np_dtype_to_tensor_dtype
    tensors = [onnx.helper.make_tensor_value_info(name, to_type(v.dtype), v.shape) for name, v in feeds.items()]
    node = onnx.helper.make_node(op_type, list(feeds), ["y"], **attributes)
    zero_point = feeds["zero_point"].dtype
    output = to_type(zero_point) if op_type == "QuantizeLinear" else onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph([node], "g", tensors, [onnx.helper.make_tensor_value_info("y", output, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("axis", [None, 1])
def test_quantize_and_dequantize_agree_with_onnx(run_op, rng, dtype, axis):
    x = rng.uniform(-3, 3, (2, 3, 40)).astype(np.float32)
    shape = () if axis is None else (3,)
    scale = rng.uniform(0.01, 0.05, shape).astype(np.float32)
    zero_point = rng.integers(0, 100, shape).astype(dtype)
    feeds = {"x": x, "scale": scale, "zero_point": zero_point}
    attributes = {} if axis is None else {"axis": axis}
    levels = onnx_op("QuantizeLinear", feeds, **attributes)
    inputs = {"scale": scale, "zero_point": zero_point, **attributes, "ios": 17, "fed": ["input"]}
    actual = run_op("quantize", input=x, output_dtype=dtype, dtypes=[dtype], **inputs)
    assert actual.dtype == dtype
    np.testing.assert_array_equal(actual, levels)
    expected = onnx_op("DequantizeLinear", {**feeds, "x": levels}, **attributes)
    np.testing.assert_allclose(run_op("dequantize", input=levels, **inputs), expected, rtol=1e-6)


def test_ties_go_to_the_even_level_and_the_zero_point_may_be_left_out(run_op):
    x = np.array([0.5, 1.5, 2.5, -0.5, 200, -200], np.float32)
    actual = run_op("quantize", input=x, scale=1.0, output_dtype="int8", ios=17, fed=["input"], dtypes=["int8"])
    np.testing.assert_array_equal(actual, [0, 2, 2, 0, 127, -128])
    actual = run_op("dequantize", input=np.array([-3, 4], np.int8), scale=0.5, ios=17, fed=["input"])
    np.testing.assert_array_equal(actual, [-1.5, 2])


def test_a_vector_of_scales_needs_an_axis(run_op):
    with pytest.raises(ValueError, match="axis"):
        run_op("dequantize", input=np.zeros((2, 2), np.int8), scale=np.ones(2, np.float32), ios=17, fed=["input"])
