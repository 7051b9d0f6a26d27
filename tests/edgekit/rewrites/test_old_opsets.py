from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.stages.load import Load

RNG = np.random.default_rng(5)
X = RNG.standard_normal((1, 3, 4, 4)).astype(np.float32)
C = RNG.uniform(0.5, 1.5, 3).astype(np.float32)
BY_CHANNEL = C[:, None, None]


def loaded_output(folder, op_type: str, opset: int, constants: dict[str, np.ndarray], **attributes: Any) -> np.ndarray:
    """What a file of one node computes after it was loaded."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x", *constants], ["y"], **attributes)],
        "old",
        [info("x", TensorProto.FLOAT, X.shape), *(info(n, TensorProto.FLOAT, c.shape) for n, c in constants.items())],
        [info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    proto.ir_version = 3
    path = folder / "old.onnx"
    path.write_bytes(proto.SerializeToString())
    model = Load()(path).model
    assert model.opset >= 9
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": X})[0]


@pytest.mark.parametrize("opset", [1, 5, 6])
@pytest.mark.parametrize(
    ("op_type", "expected"), [("Add", X + BY_CHANNEL), ("Mul", X * BY_CHANNEL), ("Div", X / BY_CHANNEL)]
)
def test_broadcast_along_an_axis(tmp_path, opset, op_type, expected):
    found = loaded_output(tmp_path, op_type, opset, {"c": C}, broadcast=1, axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("opset", [5, 6])
def test_batch_normalization(tmp_path, opset):
    constants = {"s": C, "b": -C, "m": C / 2, "v": 2 * C}
    obsolete = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset < 6 else {}
    found = loaded_output(tmp_path, "BatchNormalization", opset, constants, is_test=1, epsilon=1e-3, **obsolete)
    expected = (X - BY_CHANNEL / 2) / np.sqrt(2 * BY_CHANNEL + 1e-3) * BY_CHANNEL - BY_CHANNEL
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_prelu_by_channel(tmp_path):
    np.testing.assert_allclose(loaded_output(tmp_path, "PRelu", 6, {"a": C}), np.where(X < 0, X * BY_CHANNEL, X))


def test_dropout_drops_nothing(tmp_path):
    np.testing.assert_array_equal(loaded_output(tmp_path, "Dropout", 6, {}, is_test=1, ratio=0.5), X)


def test_upsample_by_attributes(tmp_path):
    found = loaded_output(tmp_path, "Upsample", 1, {}, height_scale=2.0, width_scale=2.0, mode="nearest")
    np.testing.assert_array_equal(found, X.repeat(2, 2).repeat(2, 3))


def test_reshape_by_attribute(tmp_path):
    np.testing.assert_array_equal(loaded_output(tmp_path, "Reshape", 1, {}, shape=[3, -1]), X.reshape(3, -1))
