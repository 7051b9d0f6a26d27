from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError
from edgekit.rewrites.ml.trees import TreeEnsembleClassifier, TreeEnsembleRegressor

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
RNG = np.random.default_rng(0)


def ml_model(
    op_type: str,
    inputs: dict[str, tuple[int, list[int]]],
    outputs: dict[str, int],
    opset: int = 17,
    ml: int = 3,
    **attributes: Any,
) -> onnx.ModelProto:
    node = helper.make_node(op_type, list(inputs), list(outputs), domain="ai.onnx.ml", name="it", **attributes)
    graph = helper.make_graph(
        [node],
        "ml",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", ml)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("opset", [9, 11, 13, 18])
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Scaler", {"offset": [0.5, -1.0, 2.0], "scale": [2.0, 0.1, 3.0]}),
        ("Scaler", {"offset": [0.5], "scale": [2.0]}),
        ("Normalizer", {"norm": "MAX"}),
        ("Normalizer", {"norm": "L1"}),
        ("Normalizer", {"norm": "L2"}),
        ("Binarizer", {"threshold": 0.25}),
        ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")}),
        ("Imputer", {"imputed_value_floats": [1.5], "replaced_value_float": 0.0}),
        ("LinearRegressor", {"coefficients": [1.0, -2.0, 0.5, 0.1, 3.0, 1.0], "intercepts": [0.5, 1.0], "targets": 2}),
        ("LinearRegressor", {"coefficients": [1.0, -2.0, 0.5], "post_transform": "LOGISTIC"}),
    ],
)
def test_floats(assert_rewritten, opset, op_type, attributes):
    model = ml_model(op_type, {"x": (FLOAT, [4, 3])}, {"y": FLOAT}, opset, **attributes)
    x = numbers(4, 3)
    x[1, 2], x[2] = np.nan if op_type == "Imputer" else 0.0, 0.0
    assert_rewritten(model, {"x": x}, {"x": numbers(4, 3)})


@pytest.mark.parametrize("labels", [{"classlabels_ints": [3, 1, 7]}, {"classlabels_strings": ["a", "b", "c"]}])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear_classifier(assert_rewritten, labels, transform):
    kind = STRING if "classlabels_strings" in labels else INT64
    weights = {"coefficients": numbers(12).tolist(), "intercepts": [0.1, -0.2, 0.3], "post_transform": transform}
    model = ml_model(
        "LinearClassifier", {"x": (FLOAT, [5, 4])}, {"label": kind, "scores": FLOAT}, **labels, **weights, multi_class=1
    )
    assert_rewritten(model, {"x": numbers(5, 4)})


def test_coefficients_beyond_the_intercepts_rows_are_ignored(assert_rewritten):
    """ONNX Runtime's example of iris has 12 for 3 classes of 2 features."""
    weights = {"coefficients": numbers(12).tolist(), "intercepts": [0.1, -0.2, 0.3], "post_transform": "LOGISTIC"}
    model = ml_model(
        "LinearClassifier",
        {"x": (FLOAT, [5, 2])},
        {"label": INT64, "scores": FLOAT},
        classlabels_ints=[0, 1, 2],
        **weights,
    )
    assert_rewritten(model, {"x": numbers(5, 2)})


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_classifier_of_one_row(assert_rewritten, transform):
    weights = {"coefficients": [0.5, -1.0, 2.0, 0.1], "intercepts": [0.1], "post_transform": transform}
    model = ml_model(
        "LinearClassifier",
        {"x": (FLOAT, [6, 4])},
        {"label": INT64, "scores": FLOAT},
        classlabels_ints=[5, 9],
        **weights,
    )
    assert_rewritten(model, {"x": numbers(6, 4)})


@pytest.mark.parametrize(
    ("kinds", "attributes"),
    [
        ((INT64, INT64), {"keys_int64s": [1, 5, 9], "values_int64s": [7, 8, 9], "default_int64": -5}),
        ((INT64, FLOAT), {"keys_int64s": [1, 5, 9], "values_floats": [0.5, 0.25, 9.0], "default_float": 3.5}),
        ((FLOAT, INT64), {"keys_floats": [1.0, 5.0, 9.0], "values_int64s": [7, 8, 9]}),
        ((INT64, STRING), {"keys_int64s": [1, 5, 9], "values_strings": ["x", "y", "z"], "default_string": "none"}),
    ],
)
def test_label_encoder(assert_rewritten, kinds, attributes):
    model = ml_model("LabelEncoder", {"x": (kinds[0], [2, 3])}, {"y": kinds[1]}, **attributes)
    x = np.array([[1, 2, 5], [9, 9, 0]], np.float32 if kinds[0] == FLOAT else np.int64)
    assert_rewritten(model, {"x": x})


@pytest.mark.parametrize("version", [3, 4])
def test_label_encoder_of_what_is_missing(assert_rewritten, version):
    """ONNX Runtime finds NaN since version 4 of the operator."""
    attributes = {"keys_floats": [1.0, float("nan"), 2.5], "values_int64s": [7, 8, 9], "default_int64": -3}
    model = ml_model("LabelEncoder", {"x": (FLOAT, [2, 3])}, {"y": INT64}, ml=version, **attributes)
    assert_rewritten(model, {"x": np.array([[1, np.nan, 2.5], [np.nan, 0, 9]], np.float32)})


def test_one_hot_encoder(assert_rewritten):
    model = ml_model("OneHotEncoder", {"x": (FLOAT, [4])}, {"y": FLOAT}, cats_int64s=[0, 2, 5], zeros=1)
    assert_rewritten(model, {"x": np.array([0.0, 2.9, 5.0, 7.0], np.float32)})


def test_one_hot_encoder_that_fails_at_other_numbers(assert_rewritten):
    """As scikit-learn's encoder does by default."""
    model = ml_model("OneHotEncoder", {"x": (INT64, [4])}, {"y": FLOAT}, cats_int64s=[0, 2, 5], zeros=0)
    assert_rewritten(model, {"x": np.array([5, 0, 2, 0])})


def test_imputer_of_integers(assert_rewritten):
    attributes = {"imputed_value_int64s": [4, 5], "replaced_value_int64": -1}
    model = ml_model("Imputer", {"x": (INT64, [2, 2])}, {"y": INT64}, **attributes)
    assert_rewritten(model, {"x": np.array([[-1, 2], [3, -1]])})


def test_feature_vectorizer(assert_rewritten):
    inputs = {"a": (FLOAT, [2, 3]), "b": (FLOAT, [2, 2])}
    model = ml_model("FeatureVectorizer", inputs, {"y": FLOAT}, inputdimensions=[3, 2])
    assert_rewritten(model, {"a": numbers(2, 3), "b": numbers(2, 2)})


@pytest.mark.parametrize("shape", [[3, 4], [4]])
def test_array_feature_extractor(assert_rewritten, shape):
    inputs = {"x": (FLOAT, shape), "y": (INT64, [1, 2])}
    model = ml_model("ArrayFeatureExtractor", inputs, {"z": FLOAT})
    assert_rewritten(model, {"x": numbers(*shape), "y": np.array([[3, 0]])})


def trees(count: int, depth: int, features: int, mode: str, *, prefix: str, ids: list[int], tracks: bool) -> dict:
    """Attributes of full trees with random features and thresholds; each leaf has a weight for each id."""
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    every = [(tree, node) for tree in range(count) for node in range(nodes)]
    leaves = [(tree, node, each) for tree, node in every if node >= inner for each in ids]
    attributes = {
        "nodes_treeids": [tree for tree, _ in every],
        "nodes_nodeids": [node for _, node in every],
        "nodes_featureids": [int(RNG.integers(features)) if node < inner else 0 for _, node in every],
        "nodes_values": [round(float(RNG.standard_normal()), 1) if node < inner else 0.0 for _, node in every],
        "nodes_modes": [mode if node < inner else "LEAF" for _, node in every],
        "nodes_truenodeids": [2 * node + 1 if node < inner else 0 for _, node in every],
        "nodes_falsenodeids": [2 * node + 2 if node < inner else 0 for _, node in every],
        f"{prefix}_treeids": [tree for tree, _, _ in leaves],
        f"{prefix}_nodeids": [node for _, node, _ in leaves],
        f"{prefix}_ids": [each for _, _, each in leaves],
        f"{prefix}_weights": RNG.uniform(0, 0.2, len(leaves)).tolist(),
    }
    if tracks:
        attributes["nodes_missing_value_tracks_true"] = [int(RNG.integers(2)) for _ in every]
    return attributes


def samples_at_thresholds(rows: int, features: int, *, missing: bool) -> np.ndarray:
    """Multiples of a tenth, as the thresholds are, and numbers that are none."""
    x = numbers(rows, features).round(1)
    if missing:
        x[::3, 1] = np.nan
    return x


@pytest.mark.parametrize("depth", [3, 8], ids=["products", "gathering"])
@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"])
def test_tree_regressor(assert_rewritten, depth, mode):
    attributes = trees(4, depth, 5, mode, prefix="target", ids=[0, 1], tracks=mode == "BRANCH_LEQ")
    model = ml_model(
        "TreeEnsembleRegressor",
        {"x": (FLOAT, [20, 5])},
        {"y": FLOAT},
        n_targets=2,
        base_values=[1.0, 2.0],
        **attributes,
    )
    x = samples_at_thresholds(20, 5, missing=True)
    assert_rewritten(model, {"x": x})


@pytest.mark.parametrize("function", ["AVERAGE", "MIN", "MAX"])
def test_tree_regressor_that_takes(assert_rewritten, function):
    attributes = trees(4, 3, 5, "BRANCH_LEQ", prefix="target", ids=[0], tracks=False)
    model = ml_model(
        "TreeEnsembleRegressor",
        {"x": (FLOAT, [9, 5])},
        {"y": FLOAT},
        n_targets=1,
        aggregate_function=function,
        **attributes,
    )
    assert_rewritten(model, {"x": samples_at_thresholds(9, 5, missing=False)})


@pytest.mark.parametrize("rows", [20, None], ids=["fixed", "open"])
def test_deep_trees_before_opset_11(assert_rewritten, rows):
    """A feature is looked up by its place among all numbers, or picked by a comparison where the rows are open."""
    attributes = trees(4, 8, 5, "BRANCH_LEQ", prefix="target", ids=[0], tracks=True)
    model = ml_model("TreeEnsembleRegressor", {"x": (FLOAT, [rows, 5])}, {"y": FLOAT}, 9, n_targets=1, **attributes)
    result = assert_rewritten(model, {"x": samples_at_thresholds(20, 5, missing=True)})
    picked = [
        node for node in result.model.graph if node.op_type == "ReduceSum" and node.attributes.get_ints("axes") == (2,)
    ]
    assert len(picked) == (8 if rows is None else 0)


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize(
    ("ids", "sign", "labels"),
    [
        ([0, 1, 2], 1, {"classlabels_int64s": [4, 2, 9]}),
        ([0], 1, {"classlabels_int64s": [4, 2]}),
        ([0], -1, {"classlabels_int64s": [0, 1]}),
        ([0, 1], 1, {"classlabels_int64s": [0, 1]}),
        ([0, 1, 2], 1, {"classlabels_strings": ["a", "b", "c"]}),
    ],
    ids=["three", "probability", "score", "two", "texts"],
)
def test_tree_classifier(assert_rewritten, opset, transform, ids, sign, labels):
    attributes = trees(6, 7, 5, "BRANCH_LEQ", prefix="class", ids=ids, tracks=True)
    attributes["class_weights"] = [
        w * (sign if place % 2 else 1) for place, w in enumerate(attributes["class_weights"])
    ]
    kind = STRING if "classlabels_strings" in labels else INT64
    model = ml_model(
        "TreeEnsembleClassifier",
        {"x": (FLOAT, [20, 5])},
        {"label": kind, "scores": FLOAT},
        opset,
        post_transform=transform,
        **labels,
        **attributes,
    )
    assert_rewritten(model, {"x": samples_at_thresholds(20, 5, missing=True)})


@pytest.mark.parametrize("count", [1, 3])
def test_tree_classifier_of_places_of_leaves(assert_rewritten, count):
    """As skl2onnx writes forests with several outputs; no leaf has a weight for an inner node's place."""
    attributes = trees(count, 7, 5, "BRANCH_LEQ", prefix="class", ids=[0], tracks=True)
    attributes["class_ids"] = [2 * place + 1 for place in attributes["class_nodeids"]]
    attributes["class_weights"] = [1.0 + place % 2 for place in range(len(attributes["class_ids"]))]
    model = ml_model(
        "TreeEnsembleClassifier",
        {"x": (FLOAT, [20, 5])},
        {"label": INT64, "scores": FLOAT},
        classlabels_int64s=list(range(max(attributes["class_ids"]) + 2)),
        **attributes,
    )
    assert_rewritten(model, {"x": samples_at_thresholds(20, 5, missing=True)})


def test_tree_classifier_whose_leaves_may_count_against_a_class(model_of):
    """ONNX Runtime then takes the greatest of the classes that have a score at all."""
    attributes = trees(1, 7, 5, "BRANCH_LEQ", prefix="class", ids=[0], tracks=True)
    attributes["class_ids"] = [place % 3 for place in range(len(attributes["class_ids"]))]
    attributes["class_weights"] = [-1.0] * len(attributes["class_ids"])
    ends = {"x": (FLOAT, [20, 5])}, {"label": INT64, "scores": FLOAT}
    model = ml_model("TreeEnsembleClassifier", *ends, classlabels_int64s=[0, 1, 2], **attributes)
    with pytest.raises(InapplicableError, match="a sample may reach no leaf that has a weight for target 0"):
        TreeEnsembleClassifier().replacement(model_of(model).graph[0], NodeBuilder(17, "it"))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "PROBIT"])
@pytest.mark.parametrize("base", [[], [0.25], [0.5, -0.25]])
@pytest.mark.parametrize(("of", "sign"), [(0, 1), (0, -1), (1, -1)], ids=["probability", "score", "score of second"])
def test_tree_classifier_with_weights_of_one_class_and_base_values(
    assert_rewritten, model_of, transform, base, sign, of
):
    """Gradient boosting's exporters write one base value, or the same for both classes."""
    attributes = trees(3, 2, 5, "BRANCH_LEQ", prefix="class", ids=[of], tracks=True)
    attributes["class_weights"] = [
        0.01 * w * (sign if place % 2 else 1) for place, w in enumerate(attributes["class_weights"])
    ]
    model = ml_model(
        "TreeEnsembleClassifier",
        {"x": (FLOAT, [20, 5])},
        {"label": INT64, "scores": FLOAT},
        post_transform=transform,
        classlabels_int64s=[0, 1],
        **({"base_values": base} if base else {}),
        **attributes,
    )
    if transform == "PROBIT" and of == 0 and len(base) < 2:
        node = model_of(model).graph[0]
        with pytest.raises(
            InapplicableError, match="with the transform PROBIT and a single score, the second score is undefined"
        ):
            TreeEnsembleClassifier().replacement(node, NodeBuilder(17, "it"))
    else:
        assert_rewritten(model, {"x": samples_at_thresholds(20, 5, missing=True)})


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX"])
@pytest.mark.parametrize(
    ("classes", "uneven"),
    [([0, 1, 2, 0, 1, 2], False), ([0, 1, 2, 0, 1, 0], False), ([2, 1, 0, 0, 0, 0, 0, 0, 0], True)],
)
def test_tree_classifier_of_which_a_tree_votes_for_one_class(assert_rewritten, classes, uneven, transform):
    """As gradient boosting grows them; a node then holds one number, and a row of them where classes differ much."""
    attributes = trees(len(classes), 7, 5, "BRANCH_LEQ", prefix="class", ids=[0], tracks=True)
    attributes["class_ids"] = [classes[tree] for tree in attributes["class_treeids"]]
    model = ml_model(
        "TreeEnsembleClassifier",
        {"x": (FLOAT, [20, 5])},
        {"label": INT64, "scores": FLOAT},
        post_transform=transform,
        classlabels_int64s=[4, 2, 9],
        base_values=[0.25, -0.5, 0.125],
        **attributes,
    )
    x = samples_at_thresholds(20, 5, missing=True)
    result = assert_rewritten(model, {"x": x})
    largest = max(value.const_value.size for value in result.model.graph.initializers.values())
    nodes = len(attributes["nodes_modes"])
    assert largest == (3 * nodes if uneven else nodes + 1)


@pytest.mark.parametrize(("below", "why"), [([1, 0], "no node is the root"), ([5, 0], "tree 0 has no node 5")])
def test_nodes_that_are_no_tree_are_left(model_of, below, why):
    """Two nodes below each other, and one whose child is missing."""
    attributes = {
        "nodes_treeids": [0, 0],
        "nodes_nodeids": [0, 1],
        "nodes_featureids": [0, 0],
        "nodes_values": [0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ"],
        "nodes_truenodeids": below,
        "nodes_falsenodeids": below,
        "target_treeids": [0],
        "target_nodeids": [1],
        "target_ids": [0],
        "target_weights": [1.0],
    }
    model = model_of(ml_model("TreeEnsembleRegressor", {"x": (FLOAT, [3, 2])}, {"y": FLOAT}, n_targets=1, **attributes))
    node = model.graph[0]
    with pytest.raises(InapplicableError, match=why):
        TreeEnsembleRegressor().replacement(node, NodeBuilder(17, "it"))


def test_trees_whose_numbers_have_gaps(assert_rewritten):
    attributes = trees(5, 7, 4, "BRANCH_LT", prefix="target", ids=[0], tracks=False)
    node_number = np.sort(RNG.permutation(5 * 255)[:255])
    tree_number = np.array([3, 17, 18, 4000, 90000])
    for name in ("nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids", "target_nodeids"):
        attributes[name] = node_number[attributes[name]].tolist()
    for name in ("nodes_treeids", "target_treeids"):
        attributes[name] = tree_number[attributes[name]].tolist()
    model = ml_model("TreeEnsembleRegressor", {"x": (FLOAT, [30, 4])}, {"y": FLOAT}, n_targets=1, **attributes)
    assert_rewritten(model, {"x": samples_at_thresholds(30, 4, missing=False)})


def test_tree_ensemble_of_version_5(assert_rewritten):
    def tensor(array: np.ndarray) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(array)

    model = ml_model(
        "TreeEnsemble",
        {"x": (FLOAT, [3, 2])},
        {"y": FLOAT},
        ml=5,
        n_targets=2,
        aggregate_function=1,
        post_transform=0,
        tree_roots=[0],
        nodes_featureids=[0, 0, 0],
        nodes_modes=tensor(np.array([0, 6, 6], np.uint8)),
        nodes_splits=tensor(np.array([3.14, 1.2, 4.2], np.float32)),
        nodes_truenodeids=[1, 0, 1],
        nodes_falsenodeids=[2, 2, 3],
        nodes_trueleafs=[0, 1, 1],
        nodes_falseleafs=[0, 1, 1],
        leaf_targetids=[0, 1, 0, 0],
        leaf_weights=tensor(np.array([5.23, 12.12, -12.23, 7.21], np.float32)),
        membership_values=tensor(np.array([1.2, 3.7, 8, 9, np.nan, 12, 7, np.nan], np.float32)),
    )
    x = np.array([[1.2, 3.4], [-0.12, 1.66], [12, 1.77]], np.float32)
    assert_rewritten(model, {"x": x})


@pytest.mark.parametrize(
    ("kernel", "parameters"), [("LINEAR", []), ("POLY", [0.5, 1.0, 3.0]), ("RBF", [0.5]), ("SIGMOID", [0.2, 0.1])]
)
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(assert_rewritten, kernel, parameters, one_class):
    model = ml_model(
        "SVMRegressor",
        {"x": (FLOAT, [7, 4])},
        {"y": FLOAT},
        coefficients=numbers(5).tolist(),
        kernel_params=[*parameters, 0.0, 0.0, 0.0][:3],
        kernel_type=kernel,
        n_supports=5,
        one_class=one_class,
        rho=[0.25],
        support_vectors=numbers(20).tolist(),
    )
    assert_rewritten(model, {"x": numbers(7, 4)})


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("with_probabilities", [False, True])
def test_svm_classifier(assert_rewritten, classes, with_probabilities):
    members, pairs = [2, 3, 1, 2, 2][:classes], classes * (classes - 1) // 2
    platt = {"prob_a": [-1.5] * pairs, "prob_b": numbers(pairs).tolist()} if with_probabilities else {}
    model = ml_model(
        "SVMClassifier",
        {"x": (FLOAT, [12, 4])},
        {"label": INT64, "scores": FLOAT},
        classlabels_ints=list(range(10, 10 + classes)),
        coefficients=numbers((classes - 1) * sum(members)).tolist(),
        kernel_params=[0.3, 0.0, 3.0],
        kernel_type="RBF",
        rho=numbers(pairs).tolist(),
        support_vectors=numbers(4 * sum(members)).tolist(),
        vectors_per_class=members,
        **platt,
    )
    assert_rewritten(model, {"x": numbers(12, 4)})
