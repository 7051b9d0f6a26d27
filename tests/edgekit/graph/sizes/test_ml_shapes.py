"""Shapes of what ``ai.onnx.ml`` makes, against those that ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

FEATURES = 3
OF_EACH_CLASS = 2


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("kind", ["probabilities", "pairs", "linear"])
def test_scores_of_a_support_vector_classifier(classes: int, kind: str) -> None:
    rng = np.random.default_rng(classes)
    pairs, vectors = classes * (classes - 1) // 2, classes * OF_EACH_CLASS
    attributes: dict[str, Any] = {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0], "rho": [0.1] * pairs}
    if kind == "linear":
        attributes |= {"kernel_type": "LINEAR", "coefficients": rng.random(classes * FEATURES).tolist(), "rho": [0.1]}
    else:
        attributes["coefficients"] = rng.random((classes - 1) * vectors).tolist()
        attributes["support_vectors"] = rng.random(vectors * FEATURES).tolist()
        attributes["vectors_per_class"] = [OF_EACH_CLASS] * classes
    if kind == "probabilities":
        attributes |= {"prob_a": [-1.0] * pairs, "prob_b": [0.1] * pairs}
    node = helper.make_node(
        "SVMClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", classlabels_ints=range(classes), **attributes
    )
    graph = helper.make_graph(
        [node, helper.make_node("Identity", ["scores"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, FEATURES])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, None),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)

    outputs = infer_shapes(Model(ir.from_proto(proto))).outputs

    x = rng.random((5, FEATURES)).astype(np.float32)
    found = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    assert [output.shape for output in outputs] == [array.shape for array in found]


def test_a_label_encoder_behind_trees_whose_type_is_not_known_yet() -> None:
    """ONNX's inference ends the process where it asks for the type; the trees' is told by what is known here."""
    trees = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["leaf"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[1.0, 2.0],
    )
    encoder = helper.make_node(
        "LabelEncoder", ["leaf"], ["path"], domain="ai.onnx.ml", keys_floats=[1.0, 2.0], values_strings=["10", "11"]
    )
    graph = helper.make_graph(
        [trees, encoder, helper.make_node("Identity", ["path"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, None)],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 2)]
    inferred = infer_shapes(Model(ir.from_proto(helper.make_model(graph, opset_imports=opsets))))
    told = {value.name: (value.dtype, value.shape) for node in inferred.graph for value in node.outputs}
    assert told["leaf"][0] is ir.DataType.FLOAT
    assert told["path"][0] is ir.DataType.STRING
    assert told["path"][1] == (5, 1)
