from __future__ import annotations

import numpy as np
import onnx
import pytest

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError

DOMAIN = "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def grown(rng, modes, *, trees=3, depth=3, features=4, missing=False):
    """Attributes of random trees, the places of their leaves."""
    nodes = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    leaves = []

    def add(tree, level):
        number = nodes["treeids"].count(tree)
        place = len(nodes["treeids"])
        leaf = level == depth or (level > 0 and rng.uniform() < 0.25)
        row = (tree, number, int(rng.integers(features)), float(rng.integers(-2, 3)), rng.choice(modes), 0, 0)
        for name, entry in zip(nodes, row, strict=True):
            nodes[name].append(entry)
        if leaf:
            nodes["modes"][place] = "LEAF"
            leaves.append((tree, number))
        else:
            nodes["truenodeids"][place] = add(tree, level + 1)
            nodes["falsenodeids"][place] = add(tree, level + 1)
        return number

    for tree in range(trees):
        add(tree, 0)
    attributes = {f"nodes_{name}": entries for name, entries in nodes.items()}
    attributes["nodes_modes"] = [str(mode) for mode in nodes["modes"]]
    if missing:
        attributes["nodes_missing_value_tracks_true"] = [
            int(number) for number in rng.integers(0, 2, len(nodes["modes"]))
        ]
    return attributes, leaves


def weighted(kind, leaves, ids, weights):
    """Attributes that give each leaf a weight for each of some targets or classes."""
    prefix = "class" if kind == "class" else "target"
    pairs = [(leaf, target) for leaf in leaves for target in ids]
    return {
        f"{prefix}_treeids": [tree for (tree, _), _ in pairs],
        f"{prefix}_nodeids": [node for (_, node), _ in pairs],
        f"{prefix}_ids": [target for _, target in pairs],
        f"{prefix}_weights": [float(weight) for weight in np.resize(weights, len(pairs))],
    }


def samples(rng, count=20, features=4):
    return rng.integers(-2, 3, (count, features)).astype(np.float32)


@pytest.mark.parametrize("modes", [["BRANCH_LEQ"], ["BRANCH_GT"], MODES])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regressor(agrees, rng, modes, aggregate):
    attributes, leaves = grown(rng, modes)
    attributes |= weighted("target", leaves, [0, 1], rng.standard_normal(100))
    x = samples(rng)
    settings = {"aggregate_function": aggregate, "n_targets": 2, "base_values": [0.5, -1.0]}
    agrees("TreeEnsembleRegressor", [x], domain=DOMAIN, **settings, **attributes)


def test_regressor_with_missing_features(agrees, rng):
    attributes, leaves = grown(rng, ["BRANCH_LEQ"], missing=True)
    attributes |= weighted("target", leaves, [0], rng.standard_normal(100))
    x = samples(rng)
    x[rng.uniform(0, 1, x.shape) < 0.4] = np.nan
    agrees("TreeEnsembleRegressor", [x], domain=DOMAIN, n_targets=1, **attributes)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_classifier(agrees, rng, transform):
    attributes, leaves = grown(rng, ["BRANCH_LEQ"])
    attributes |= weighted("class", leaves, [0, 1, 2], rng.standard_normal(100))
    settings = {"classlabels_int64s": [4, 9, 1], "base_values": [0.1, 0.2, -0.3], "post_transform": transform}
    outputs = ("int64", "float32")
    agrees("TreeEnsembleClassifier", [samples(rng)], domain=DOMAIN, outputs=outputs, **settings, **attributes)


@pytest.mark.parametrize(("transform", "low"), [("NONE", 0.0), ("LOGISTIC", -1.0)])
def test_classifier_of_two_classes(agrees, rng, transform, low):
    attributes, leaves = grown(rng, ["BRANCH_LEQ"])
    attributes |= weighted("class", leaves, [0], rng.uniform(low, 0.4, 100))
    settings = {"classlabels_int64s": [0, 1], "post_transform": transform, "base_values": [0.05]}
    outputs = ("int64", "float32")
    agrees("TreeEnsembleClassifier", [samples(rng)], domain=DOMAIN, outputs=outputs, **settings, **attributes)


@pytest.mark.parametrize(
    ("ids", "transform", "low"), [([0], "NONE", -1.0), ([0], "SOFTMAX", 0.0), ([0, 1], "NONE", 0.0)]
)
def test_classifier_of_two_classes_is_what_onnxruntime_makes_of_it(agrees, rng, ids, transform, low):
    attributes, leaves = grown(rng, ["BRANCH_LEQ"])
    attributes |= weighted("class", leaves, ids, rng.uniform(low, 0.4, 100))
    settings = {"classlabels_int64s": [0, 1], "post_transform": transform, "outputs": ("int64", "float32")}
    agrees("TreeEnsembleClassifier", [samples(rng)], domain=DOMAIN, **settings, **attributes)


def test_text_labels_are_refused(lower, rng):
    attributes, leaves = grown(rng, ["BRANCH_LEQ"])
    attributes |= weighted("class", leaves, [0, 1, 2], rng.uniform(0, 1, 100))
    settings = {"classlabels_strings": ["a", "b", "c"], "outputs": ("O", "float32")}
    with pytest.raises(UnsupportedOpsError, match="of type string"):
        lower("TreeEnsembleClassifier", [samples(rng)], domain=DOMAIN, **settings, **attributes)


def stored(array, dtype=np.float32):
    return onnx.numpy_helper.from_array(np.asarray(array, dtype))


@pytest.mark.parametrize(("aggregate", "targets"), [(0, 2), (1, 2), (2, 1), (3, 1)])
def test_ensemble_of_version_5(agrees, rng, aggregate, targets):
    settings = {
        "tree_roots": [0, 3],
        "nodes_modes": stored([0, 5, 3, 1], np.uint8),
        "nodes_featureids": [0, 1, 2, 3],
        "nodes_splits": stored([0, 1, -1, 0]),
        "nodes_truenodeids": [1, 0, 2, 4],
        "nodes_trueleafs": [0, 1, 1, 1],
        "nodes_falsenodeids": [2, 1, 3, 5],
        "nodes_falseleafs": [0, 1, 1, 1],
        "leaf_targetids": [0, targets - 1] * 3,
        "leaf_weights": stored(rng.standard_normal(6)),
    }
    agrees(
        "TreeEnsemble",
        [samples(rng)],
        domain=DOMAIN,
        opset=5,
        aggregate_function=aggregate,
        n_targets=targets,
        **settings,
    )


def test_ensemble_that_asks_for_membership(agrees, rng):
    settings = {
        "tree_roots": [0],
        "nodes_modes": stored([0, 6, 6], np.uint8),
        "nodes_featureids": [0, 1, 2],
        "nodes_splits": stored([0, 0, 0]),
        "membership_values": stored([1.5, -2.5, 0.5, np.nan, 2.5, np.nan]),
        "nodes_truenodeids": [1, 0, 2],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0, 0, 0, 0],
        "leaf_weights": stored([1.5, 2.5, 3.5, 4.5]),
    }
    agrees(
        "TreeEnsemble",
        [samples(rng) + np.float32(0.5)],
        domain=DOMAIN,
        opset=5,
        n_targets=1,
        against="reference",
        **settings,
    )


def test_half_precision_does_not_lead_to_another_leaf(tmp_path):
    tree = {
        **{f"nodes_{name}": [0, 0, 0] for name in ("treeids", "featureids")},
        "nodes_nodeids": [0, 1, 2],
        "nodes_values": [1000.1, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
    }
    weights = weighted("target", [(0, 1), (0, 2)], [0], [1.0, 2.0])
    node = onnx.helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain=DOMAIN, n_targets=1, **tree, **weights)
    features, result = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3, 1]) for name in "xy")
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "tree", [features], [result]),
        opset_imports=[onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid(DOMAIN, 3)],
        ir_version=9,
    )
    package = edgekit_coreml.convert(model, tmp_path / "tree", precision="float16")
    x = np.array([[1000.05], [1000.15], [1000.1]], np.float32)  # all of them 1000 in float16
    assert edgekit_coreml.load(package).run({"x": x})["y"].ravel().tolist() == [1.0, 2.0, 1.0]
