"""Ensembles of many trees in the built models: samples on thresholds and beside them end at ONNX Runtime's leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import edgekit
import edgekit_coreml
import edgekit_openvino

ML = "ai.onnx.ml"
FEATURES, CLASSES, TREES, DEPTH, ROWS = 7, 5, 40, 8, 64
INNER, NODES = 2**DEPTH - 1, 2 ** (DEPTH + 1) - 1


def nodes_of(tree: int, thresholds: np.ndarray) -> dict[str, list[Any]]:
    """The nodes of a full tree of random features; a quarter of the thresholds occur in other trees, too."""
    rng = np.random.default_rng(tree)
    return {
        "nodes_treeids": [tree] * NODES,
        "nodes_nodeids": list(range(NODES)),
        "nodes_featureids": [int(rng.integers(FEATURES)) if at < INNER else 0 for at in range(NODES)],
        "nodes_values": [float(rng.choice(thresholds)) if at < INNER else 0.0 for at in range(NODES)],
        "nodes_modes": ["BRANCH_LEQ" if at < INNER else "LEAF" for at in range(NODES)],
        "nodes_truenodeids": [2 * at + 1 if at < INNER else 0 for at in range(NODES)],
        "nodes_falsenodeids": [2 * at + 2 if at < INNER else 0 for at in range(NODES)],
    }


@pytest.fixture
def thresholds() -> np.ndarray:
    """Large and small thresholds that float16 changes."""
    rng = np.random.default_rng(3)
    return (rng.standard_normal(500) * np.resize([1, 3000, 1e-3], 500)).astype(np.float32)


@pytest.fixture
def x(thresholds: np.ndarray) -> np.ndarray:
    """Thresholds, and their neighbours in float32."""
    rng = np.random.default_rng(4)
    picked = rng.choice(thresholds, (ROWS, FEATURES))
    return np.nextafter(picked, rng.choice([-np.inf, np.inf], picked.shape).astype(np.float32)) * (
        rng.integers(0, 2, picked.shape) == 0
    ) + picked * (rng.integers(0, 2, picked.shape) == 1)


def expected(proto: onnx.ModelProto, x: np.ndarray) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, {"x": x}), strict=True))


@pytest.mark.parametrize("target", [edgekit_openvino, edgekit_coreml])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_gradient_boosting(tmp_path: Path, target: Any, precision: str, thresholds: np.ndarray, x: np.ndarray) -> None:
    """Scores are whole numbers, so that no order of their sum and no half precision of the leaves changes them."""
    rng = np.random.default_rng(5)
    trees = [nodes_of(tree, thresholds) for tree in range(TREES)]
    attributes = {name: [entry for tree in trees for entry in tree[name]] for name in trees[0]}
    leaves = [(tree, node) for tree in range(TREES) for node in range(INNER, NODES)]
    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "scores"],
        name="boosted",
        domain=ML,
        classlabels_int64s=list(range(CLASSES)),
        class_treeids=[tree for tree, _ in leaves],
        class_nodeids=[number for _, number in leaves],
        class_ids=[tree % CLASSES for tree, _ in leaves],
        class_weights=rng.integers(-40, 40, len(leaves)).astype(float).tolist(),
        **attributes,
    )
    graph = helper.make_graph(
        [node],
        "boosted",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, FEATURES])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [ROWS]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [ROWS, CLASSES]),
        ],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=9)
    found = target.load(target.convert(proto, tmp_path / "model", precision=precision)).run({"x": x})
    for name, values in expected(proto, x).items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("target", [edgekit_openvino, edgekit_coreml])
def test_a_target_that_no_leaf_has_a_weight_for(
    tmp_path: Path, target: Any, thresholds: np.ndarray, x: np.ndarray
) -> None:
    """ONNX Runtime leaves its base value out; onnxmltools gives all trees of a model of two targets to the first."""
    leaves = list(range(INNER, NODES))
    attributes: dict[str, Any] = nodes_of(0, thresholds) | {
        "n_targets": 2,
        "base_values": [670.5, 5.25],
        "target_treeids": [0] * len(leaves),
        "target_nodeids": leaves,
        "target_ids": [0] * len(leaves),
        "target_weights": [float(leaf) for leaf in leaves],
    }
    graph = helper.make_graph(
        [helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], "trees", domain=ML, **attributes)],
        "two targets",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, 2])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=9)
    found = target.load(target.convert(proto, tmp_path / "model", precision="float32")).run({"x": x})["y"]
    np.testing.assert_array_equal(found, expected(proto, x)["y"])
    assert not found[:, 1].any()


def test_a_sum_of_single_trees(tmp_path: Path, thresholds: np.ndarray, x: np.ndarray) -> None:
    """A device that lacks trees gets all trees in one set of nodes: some twenty nodes in place of twenty per tree."""
    made = []
    for tree in range(TREES):
        leaves = list(range(INNER, NODES))
        attributes: dict[str, Any] = nodes_of(tree, thresholds) | {
            "n_targets": 1,
            "target_treeids": [tree] * len(leaves),
            "target_nodeids": leaves,
            "target_ids": [0] * len(leaves),
            "target_weights": [float(leaf) for leaf in leaves],
        }
        made += [
            helper.make_node("TreeEnsembleRegressor", ["x"], [f"leaf{tree}"], f"tree{tree}", domain=ML, **attributes),
            helper.make_node("Mul", [f"leaf{tree}", "half"], [f"length{tree}"], f"length{tree}"),
        ]
    made.append(helper.make_node("Sum", [f"length{tree}" for tree in range(TREES)], ["y"], "sum"))
    graph = helper.make_graph(
        made,
        "forest",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])],
        [helper.make_tensor("half", TensorProto.FLOAT, [1], [0.5])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=9)
    onnx.save(proto, tmp_path / "forest.onnx")
    bundle = edgekit.package(tmp_path / "forest.onnx", "intel-cpu", tmp_path / "bundle", precision="float32")
    model = edgekit.load(bundle)
    found = np.concatenate([model({"x": row})["y"] for row in np.split(x, ROWS)])
    np.testing.assert_array_equal(found, expected(proto, x)["y"])
    records = [stage["record"] for stage in bundle.manifest["stages"]]
    rewrites = [each["op_type"] for record in records for each in record.get("rewrites", ())]
    assert rewrites == [f"{ML}.TreeEnsembleRegressor"]
