from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from coremltools.proto import Model_pb2

import edgekit_coreml

WEIGHTS = (16, 24)


def make(op_type, inputs, output, **attributes):
    return onnx.helper.make_node(op_type, inputs, [output], **attributes)


CHAINS = {
    "cast": [make("Cast", ["w"], "r", to=onnx.TensorProto.FLOAT)],
    "scaled": [make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT), make("Mul", ["f", "scalar"], "r")],
    "scaled from the left": [make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT), make("Mul", ["row", "f"], "r")],
    "moved and scaled": [
        make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT),
        make("Sub", ["f", "three"], "m"),
        make("Mul", ["m", "row"], "r"),
    ],
    "moved by rows, scaled by one": [
        make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT),
        make("Sub", ["f", "whole"], "m"),
        make("Mul", ["m", "scalar"], "r"),
    ],
    "moved by adding": [
        make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT),
        make("Mul", ["f", "scalar"], "m"),
        make("Add", ["three", "m"], "r"),
    ],
    "scaled, and nothing added": [
        make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT),
        make("Mul", ["f", "row"], "m"),
        make("Add", ["m", "nothing"], "r"),
    ],
    "handed on": [
        make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT),
        make("Identity", ["f"], "i"),
        make("Mul", ["i", "row"], "r"),
    ],
    "divided": [make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT), make("Div", ["f", "row"], "r")],
    "transposed": [
        make("Cast", ["wt"], "f", to=onnx.TensorProto.FLOAT),
        make("Mul", ["f", "column"], "m"),
        make("Transpose", ["m"], "r", perm=[1, 0]),
    ],
    "reshaped": [
        make("Cast", ["flat"], "f", to=onnx.TensorProto.FLOAT),
        make("Mul", ["f", "scalar"], "m"),
        make("Reshape", ["m", "shape"], "r"),
    ],
    "dequantized, and half precision": [
        make("DequantizeLinear", ["w", "row", "zeros"], "d", axis=1),
        make("Cast", ["d"], "h", to=onnx.TensorProto.FLOAT16),
        make("Cast", ["h"], "r", to=onnx.TensorProto.FLOAT),
    ],
    "divided in half precision": [
        make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT16),
        make("Div", ["f", "half row"], "h"),
        make("Cast", ["h"], "r", to=onnx.TensorProto.FLOAT),
    ],
    "dequantized and transposed": [
        make("DequantizeLinear", ["wt", "row", "zeros"], "d", axis=0),
        make("Transpose", ["d"], "r", perm=[1, 0]),
    ],
}
OTHERWISE = {
    "scales along both axes": [
        make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT),
        make("Mul", ["f", "row"], "m"),
        make("Mul", ["m", "rows"], "r"),
    ],
    "moved by half a step": [
        make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT),
        make("Sub", ["f", "half"], "r"),
    ],
    "half a step added": [
        make("Cast", ["w"], "f", to=onnx.TensorProto.FLOAT),
        make("Add", ["f", "half"], "r"),
    ],
    "a constant divided by them": [
        make("Cast", ["ones"], "f", to=onnx.TensorProto.FLOAT),
        make("Div", ["whole", "f"], "r"),
    ],
}


@pytest.fixture
def run(tmp_path, rng):
    """Builds a product with weights that a chain of nodes computes: operations in the program, error, weight bytes."""

    def build(nodes):
        rows, columns = WEIGHTS
        w = rng.integers(-100, 100, WEIGHTS, np.int8)
        values = {
            "w": w,
            "wt": np.ascontiguousarray(w.T),
            "flat": w.reshape(-1),
            "shape": np.array(WEIGHTS),
            "scalar": np.float32(0.25),
            "three": np.float32(3),
            "nothing": np.zeros(1, np.float32),
            "ones": np.where(w > 0, 1, 2).astype(np.int8),
            "half": np.float32(0.5),
            "whole": rng.integers(-9, 9, columns).astype(np.float32),
            "row": rng.random(columns, np.float32) + 0.5,
            "rows": rng.random((rows, 1), np.float32) + 0.5,
            "column": rng.random((columns, 1), np.float32) + 0.5,
            "zeros": np.zeros(columns, np.int8),
        }
        values["half row"] = values["row"].astype(np.float16)
        used = {name for node in nodes for name in node.input}
        x_info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, rows])
        y_info = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, columns])
        initializers = [onnx.numpy_helper.from_array(np.asarray(values[name]), name) for name in used & set(values)]
        graph = onnx.helper.make_graph([*nodes, make("MatMul", ["x", "r"], "y")], "g", [x_info], [y_info], initializers)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32")
        x = rng.standard_normal((3, rows), dtype=np.float32)
        options = onnxruntime.SessionOptions()  # optimized, it would quantize x too
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        (expected,) = session.run(None, {"x": x})
        found = edgekit_coreml.load(package).run({"x": x})["y"]
        in_half = any(node.op_type == "Cast" and node.attribute[0].i == onnx.TensorProto.FLOAT16 for node in nodes)
        rounding = rows * 3 * 100 * 2.0**-11 if in_half else 1e-3  # which the program leaves out
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=rounding)
        spec = Model_pb2.Model()
        spec.ParseFromString((package / "Data/com.apple.CoreML/model.mlmodel").read_bytes())
        (function,) = spec.mlProgram.functions.values()
        return Counter(operation.type for operation in function.block_specializations[function.opset].operations)

    return build


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_weights_stay_in_eight_bits(run, chain):
    assert run(chain)["constexpr_affine_dequantize"] == 1


@pytest.mark.parametrize("chain", OTHERWISE.values(), ids=OTHERWISE)
def test_what_core_ml_cannot_hold_so_is_right_all_the_same(run, chain):
    assert run(chain)["constexpr_affine_dequantize"] == 0
