"""Missing values in the built models: which way NaN goes in a tree, what an Imputer and IsNaN make of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import edgekit_coreai
import edgekit_coreml
import edgekit_onnxruntime
import edgekit_openvino

ML = "ai.onnx.ml"
CORE_AI_RUNS = pytest.mark.skipif(
    importlib.util.find_spec("coreai") is None, reason="coreai-core has wheels for Linux on x86-64 and for macOS"
)
TARGETS = [
    edgekit_onnxruntime,
    edgekit_openvino,
    edgekit_coreml,
    pytest.param(edgekit_coreai, marks=CORE_AI_RUNS),
]
NAN = np.nan
FEATURE = np.array([[0.0], [0.5], [1.0], [NAN]], np.float32)
"""Below a threshold of 0.5, the threshold, above it, and missing."""
TRUE, FALSE = 10.0, 20.0
HELD = {
    "BRANCH_LEQ": [TRUE, TRUE, FALSE],
    "BRANCH_LT": [TRUE, FALSE, FALSE],
    "BRANCH_GTE": [FALSE, TRUE, TRUE],
    "BRANCH_GT": [FALSE, FALSE, TRUE],
    "BRANCH_EQ": [FALSE, TRUE, FALSE],
}
"""By mode the leaves that the numbers in :data:`FEATURE` reach, except the missing one."""


def model(node: onnx.NodeProto, kind: int, rows: int, columns: int, ml: int = 3) -> onnx.ModelProto:
    shapes = {"x": [rows, columns], "y": [rows, columns if node.op_type == "Imputer" else 1]}
    x, y = (helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes.items())
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, ml)]
    return helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=10)


def computed(target: Any, proto: onnx.ModelProto, x: np.ndarray, folder: Path) -> np.ndarray:
    return np.asarray(target.load(target.convert(proto, folder / "model")).run({"x": x})["y"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tracks", [None, 0, 1])
@pytest.mark.parametrize("mode", HELD)
def test_a_regressor(tmp_path: Path, target: Any, tracks: int | None, mode: str) -> None:
    tracked = {} if tracks is None else {"nodes_missing_value_tracks_true": [tracks, 0, 0]}
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain=ML,
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_modes=[mode, "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[TRUE, FALSE],
        **tracked,
    )
    found = computed(target, model(node, TensorProto.FLOAT, 4, 1), FEATURE, tmp_path)
    assert found.ravel().tolist() == [*HELD[mode], TRUE if tracks else FALSE]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
@pytest.mark.parametrize("depth", [2, 8], ids=["products", "gathering"])
def test_an_ensemble_of_version_5(tmp_path: Path, target: Any, kind: int, depth: int) -> None:
    rng = np.random.default_rng(depth)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    inner = 2**depth - 1
    last = [2 * at + 1 >= inner for at in range(inner)]  # whose children are leaves

    def stored(array: Any, of: Any = dtype) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(np.asarray(array, of))

    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain=ML,
        n_targets=1,
        tree_roots=[0],
        nodes_modes=stored(rng.integers(0, 2, inner), np.uint8),  # BRANCH_LEQ and BRANCH_LT
        nodes_featureids=rng.integers(0, 4, inner).tolist(),
        nodes_splits=stored(rng.integers(-2, 3, inner)),
        nodes_missing_value_tracks_true=rng.integers(0, 2, inner).tolist(),
        nodes_truenodeids=[2 * at + 1 - inner * last[at] for at in range(inner)],
        nodes_falsenodeids=[2 * at + 2 - inner * last[at] for at in range(inner)],
        nodes_trueleafs=[int(each) for each in last],
        nodes_falseleafs=[int(each) for each in last],
        leaf_targetids=[0] * 2**depth,
        leaf_weights=stored(rng.integers(-99, 99, 2**depth)),
    )
    proto = model(node, kind, 64, 4, ml=5)
    x = rng.integers(-2, 3, (64, 4)).astype(dtype)
    x[rng.uniform(size=x.shape) < 0.4] = NAN
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    assert len(set(expected.ravel())) > 3
    np.testing.assert_array_equal(computed(target, proto, x, tmp_path), expected)


@pytest.mark.parametrize("target", TARGETS)
def test_an_imputer(tmp_path: Path, target: Any) -> None:
    node = helper.make_node(
        "Imputer", ["x"], ["y"], domain=ML, imputed_value_floats=[7.0, 8.0], replaced_value_float=NAN
    )
    x = np.array([[NAN, 1], [2, NAN], [NAN, NAN], [3, 4]], np.float32)
    found = computed(target, model(node, TensorProto.FLOAT, 4, 2), x, tmp_path)
    np.testing.assert_array_equal(found, [[7, 1], [2, 8], [7, 8], [3, 4]])


@pytest.mark.parametrize("target", TARGETS)
def test_a_mean_of_what_is_not_missing(tmp_path: Path, target: Any) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
    g (float[2, 4] x) => (float[2, 1] y) <float zero = {0}> {
      m = IsNaN(x) n = Not(m) k = Cast<to = 1>(n) f = Where(m, zero, x)
      s = ReduceSum<keepdims = 1>(f, one) c = ReduceSum<keepdims = 1>(k, one) y = Div(s, c)
    }""")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "one"))
    x = np.array([[1, NAN, 3, NAN], [4, 8, NAN, 6]], np.float32)
    np.testing.assert_allclose(computed(target, proto, x, tmp_path), [[2], [6]], rtol=1e-3)
