"""Operators that ONNX Runtime takes in older operator sets than ONNX has them in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgekit.execution.reference import Reference
from edgekit.stages.load import Load

RNG = np.random.default_rng(5)
WEIGHTS = {"gain": RNG.standard_normal(6, np.float32), "offset": RNG.standard_normal(6, np.float32)}
NORMALIZED = "n = LayerNormalization <axis = -1, epsilon = 1e-5> (x, gain, offset)"


@pytest.mark.parametrize(
    ("opset", "rank", "rest"),
    [
        pytest.param(14, "a, b", "y = Relu (n)", id="whose other operators are the same in the newer set"),
        pytest.param(
            11, "a, b, c", "m = Unsqueeze <axes = [0]> (n) y = Softmax <axis = 1> (m)", id="which are converted"
        ),
    ],
)
def test_layer_normalization_of_an_older_set(onnx_file: Callable[..., Path], opset: int, rank: str, rest: str) -> None:
    file = onnx_file(f"g (float[2, 6] x) => (float[{rank}] y) {{ {NORMALIZED} {rest} }}", opset=opset, **WEIGHTS)
    result = Load()(file)
    assert result.model.opset == 17
    assert result.record["upgraded_from_opset"] == opset
    x = RNG.standard_normal((2, 6), np.float32)
    (expected,) = onnxruntime.InferenceSession(file).run(None, {"x": x})
    np.testing.assert_allclose(Reference(result.model).run({"x": x})["y"], expected, rtol=1e-6, atol=1e-6)


def test_labels_of_what_has_no_known_type_in_an_old_set(tmp_path: Path) -> None:
    """ONNX's converter infers types; its inference crashes at a LabelEncoder behind a TreeEnsembleRegressor."""
    domain, leaves = "ai.onnx.ml", [1.0, 2.0]
    tree = onnx.helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["leaf"],
        domain=domain,
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=leaves,
    )
    encoder = onnx.helper.make_node(
        "LabelEncoder", ["leaf"], ["path"], domain=domain, keys_floats=leaves, values_floats=[10.0, 20.0]
    )
    graph = onnx.helper.make_graph(
        [tree, encoder, onnx.helper.make_node("Reshape", ["path", "shape"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 1])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])],
        [onnx.numpy_helper.from_array(np.array([-1]), "shape")],
    )
    imports = [onnx.helper.make_opsetid("", 5), onnx.helper.make_opsetid(domain, 2)]
    file = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=8), file)

    model = Load()(file).model

    assert model.opset >= 9
    assert {node.domain for node in model.graph} == {"", domain}
    assert domain in model.graph.opset_imports
    x = np.array([[0.0], [1.0], [0.5]], np.float32)
    assert Reference(model).run({"x": x})["y"].tolist() == [10.0, 20.0, 10.0]
