from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgekit_coreml
import edgekit_onnxruntime
import edgekit_openvino
from edgekit.errors import InputError, UnsupportedOpsError
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress


@pytest.mark.parametrize("target", ["onnxruntime", "ios18", "intel-cpu"])
def test_a_dropout_in_training_is_refused_on_every_target(tmp_path, target):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Dropout", ["x", "ratio", "training"], ["d"], name="drop"),
            helper.make_node("Relu", ["d"], ["y"]),
        ],
        "training",
        [info("x", TensorProto.FLOAT, [1, 64])],
        [info("y", TensorProto.FLOAT, [1, 64])],
        [
            numpy_helper.from_array(np.array(0.5, np.float32), "ratio"),
            numpy_helper.from_array(np.array(True), "training"),
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(
        InputError, match="was exported in training mode: Dropout sets numbers to zero at random"
    ) as caught:
        package(PackageRequest(tmp_path / "m.onnx", target, tmp_path / "b", shapes=ShapeRequest()), Progress())
    assert caught.value.found == "Dropout 'drop'"


@pytest.mark.parametrize("convert", [edgekit_coreml.convert, edgekit_onnxruntime.convert, edgekit_openvino.convert])
def test_a_random_operator_is_refused_by_every_converter(tmp_path, convert):
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("RandomNormalLike", ["x"], ["n"], name="draw"), helper.make_node("Add", ["x", "n"], ["y"])],
        "noise",
        [info("x", TensorProto.FLOAT, [8])],
        [info("y", TensorProto.FLOAT, [8])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedOpsError) as caught:
        convert(proto, tmp_path / "built")
    assert [gap.node.rpartition(" > ")[2] for gap in caught.value.gaps] == ["draw"]
