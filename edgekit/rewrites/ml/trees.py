"""Tree ensembles of ``ai.onnx.ml``, with the results that ONNX Runtime gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.ml.decision_trees import leaf_weights
from edgekit.rewrites.ml.scores import (
    DOMAIN,
    both,
    floats,
    label_of_sign,
    labelled,
    labels_of,
    matrix,
    transformed,
    with_base,
)
from edgekit.rewrites.ml.tree_nodes import KINDS, LEAF, MEMBER, Places, Trees, Weights, kinds_of, without_memberships

AGGREGATE_FUNCTIONS = ("AVERAGE", "SUM", "MIN", "MAX")
POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
COMPARISON_CODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", MEMBER)
_REDUCTIONS = {"SUM": "ReduceSum", "AVERAGE": "ReduceMean", "MIN": "ReduceMin", "MAX": "ReduceMax"}


class TreeEnsembleRegressor(Rewrite):
    """For each sample the weights of the leaves that it reaches, aggregated for each target."""

    name: ClassVar[str] = "tree ensemble as comparisons and products"
    op_types: ClassVar[Sequence[str]] = ("TreeEnsembleRegressor",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In float32, or float64 where the input and the thresholds are."""
        x, trees, weights = _parsed(node, build, "target", node.attributes.get_int("n_targets", 1))
        function = node.attributes.get_string("aggregate_function", "SUM")
        if function in ("MIN", "MAX") and len(weights.leaves) != np.count_nonzero(trees.is_leaf) * weights.targets:
            raise InapplicableError(f"it takes the {function} of leaves that have no weight for some targets")
        base = floats(node, "base_values")
        if base.size and weights.targets > 1:
            weighted = np.isin(np.arange(weights.targets), weights.ids)
            base = np.where(weighted, base, 0)  # ONNX Runtime adds no base value where nothing is added
            _require_all(trees, weights, np.flatnonzero(weighted))
        scores = with_base(build, _aggregated(build, trees, x, weights, function), base)
        return [transformed(build, scores, node.attributes.get_string("post_transform", "NONE"))]


class TreeEnsembleClassifier(Rewrite):
    """The label of the greatest sum of leaves' weights, and the sums.

    With two classes, all weights may belong to one: they are the probability of the second class, or its score if any
    weight is negative.
    """

    name: ClassVar[str] = "tree ensemble as comparisons and products"
    op_types: ClassVar[Sequence[str]] = ("TreeEnsembleClassifier",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In float32, or float64 where the input and the thresholds are; scores are always float32."""
        attributes = node.attributes
        labels = labels_of(node, "classlabels_int64s", "classlabels_strings")
        transform = attributes.get_string("post_transform", "NONE")
        x, trees, weights = _parsed(node, build, "class", len(labels))
        one_sided = len(labels) == 2 and len(np.unique(weights.ids)) == 1
        base = floats(node, "base_values")
        if len(labels) > 2 and transform == "NONE" and not base.size and (weights.weights > 0).all():
            # a class without a score has 0, which is not the greatest as long as any class has a score
            _require_all(trees, _of_one_target(weights), [0])
        else:
            _require_all(trees, weights, range(len(labels) if len(labels) > 1 and not one_sided else 0))
        if one_sided:
            score = _aggregated(build, trees, x, _of_one_target(weights), "SUM")
            return _of_one_side(build, score, weights, base, labels, transform)
        scores = with_base(build, _aggregated(build, trees, x, weights, "SUM"), base)
        if len(labels) == 2:  # ONNX Runtime asks for the sign of the second score
            second = build.slice(scores, [1], [2], [1])
            return [label_of_sign(build, second, 0.0, labels), transformed(build, scores, transform)]
        label = labelled(build, build.places_of_greatest(scores, 1), labels)
        return [label, transformed(build, scores, transform)]


def _of_one_target(weights: Weights) -> Weights:
    """All weights as those of one target."""
    return replace(weights, ids=np.zeros_like(weights.ids), targets=1)


def _of_one_side(
    build: NodeBuilder, score: ir.Value, weights: Weights, base: np.ndarray, labels: np.ndarray, transform: str
) -> Sequence[ir.Value]:
    """Returns the label and the scores of two classes if leaves have weights for one of them only.

    If that is the second class, or if both classes have a base value, ONNX Runtime takes the other class's score as 0.
    With two base values, it adds the base value to the first class's score, but gives the base value alone for the
    second.

    Args:
        build: Makes nodes.
        score: The sum of the leaves' weights [n, 1].
        weights: The leaves' weights.
        base: Base values: none, one or two.
        labels: The labels of the two classes.
        transform: The ``post_transform``.

    Raises:
        InapplicableError: ONNX Runtime leaves a score undefined.
    """
    is_probability = not (weights.weights < 0).any()
    over = 0.5 if is_probability else 0.0
    of_second = weights.ids[0] == 1
    if not of_second and base.size < 2:
        if transform == "PROBIT":
            raise InapplicableError("with the transform PROBIT and a single score, the second score is undefined")
        score = with_base(build, score, base)
        return [label_of_sign(build, score, over, labels), both(build, score, transform, is_probability=is_probability)]
    nothing = build("Mul", score, np.float32(0))
    if base.size == 2:
        score = with_base(build, nothing if of_second else score, base[int(of_second)][None])
    pair = build("Concat", *((nothing, score) if of_second else (score, nothing)), axis=1)
    return [label_of_sign(build, score, over, labels), transformed(build, pair, transform)]


class TreeEnsemble(Rewrite):
    """The operator that replaces the other two since version 5; a leaf has a weight for one target."""

    name: ClassVar[str] = "tree ensemble as comparisons and products"
    op_types: ClassVar[Sequence[str]] = ("TreeEnsemble",)
    domain: ClassVar[str] = DOMAIN
    versions: ClassVar[range] = range(5, 1000)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In the input's type."""
        attributes = node.attributes
        targets = attributes.get_int("n_targets", 1)
        function = AGGREGATE_FUNCTIONS[attributes.get_int("aggregate_function", 1)]
        if function in ("MIN", "MAX") and targets > 1:
            raise InapplicableError(f"it takes the {function} of leaves that have no weight for some targets")
        modes = attributes.get_tensor("nodes_modes").numpy()
        splits, numbers = (attributes.get_tensor(name).numpy() for name in ("nodes_splits", "leaf_weights"))
        inner, count = len(modes), len(numbers)
        itself = list(range(inner, inner + count))
        columns: dict[str, list[Any]] = {
            "features": [*attributes.get_ints("nodes_featureids"), *[0] * count],
            "thresholds": [*splits.tolist(), *[0.0] * count],
            "modes": [*(COMPARISON_CODES[mode] for mode in modes), *[LEAF] * count],
            "missing_is_true": [*attributes.get_ints("nodes_missing_value_tracks_true", (0,) * inner), *[0] * count],
        }
        for name, nodes, leaves in (
            ("when_true", "nodes_truenodeids", "nodes_trueleafs"),
            ("when_false", "nodes_falsenodeids", "nodes_falseleafs"),
        ):
            pairs = zip(attributes.get_ints(nodes), attributes.get_ints(leaves), strict=True)
            columns[name] = [child + inner if is_leaf else child for child, is_leaf in pairs] + itself
        members = attributes.get_tensor("membership_values", None)
        if members is not None:
            without_memberships(columns, members.numpy())
        x = _samples(node, build, splits.dtype)
        trees = Trees(
            np.array(columns["features"], np.int64),
            np.array(columns["thresholds"], splits.dtype),
            kinds_of(columns["modes"]),
            np.array(columns["when_true"], np.int64),
            np.array(columns["when_false"], np.int64),
            np.array(columns["missing_is_true"], np.bool_),
            np.array(attributes.get_ints("tree_roots"), np.int64),
        )
        ids = np.asarray(attributes.get_ints("leaf_targetids"), np.int64)
        scores = _aggregated(build, trees, x, Weights(np.asarray(itself), ids, numbers, targets), function)
        return [transformed(build, scores, POST_TRANSFORMS[attributes.get_int("post_transform", 0)])]


def _parsed(node: ir.Node, build: NodeBuilder, what: str, targets: int) -> tuple[ir.Value, Trees, Weights]:
    """Returns the samples, the trees and the leaves' weights of the operators before version 5."""
    kinds = kinds_of(node.attributes.get_strings("nodes_modes"))
    tree_ids, node_ids = _ints(node, "nodes_treeids"), _ints(node, "nodes_nodeids")
    places = Places(tree_ids, node_ids)
    inner = np.flatnonzero(kinds != KINDS.index(LEAF))
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        child = np.arange(len(kinds))
        child[inner] = places.of(tree_ids[inner], _ints(node, name)[inner])
        children.append(child)
    is_below = np.zeros(len(kinds), np.bool_)
    for child in children:
        is_below[child[inner]] = True
    thresholds = floats(node, "nodes_values")
    missing = _ints(node, "nodes_missing_value_tracks_true")
    trees = Trees(
        _ints(node, "nodes_featureids"),
        thresholds,
        kinds,
        children[0],
        children[1],
        missing.astype(np.bool_) if missing.size else np.zeros(len(kinds), np.bool_),
        np.flatnonzero(~is_below),
    )
    weights = Weights(
        places.of(_ints(node, f"{what}_treeids"), _ints(node, f"{what}_nodeids")),
        _ints(node, f"{what}_ids"),
        floats(node, f"{what}_weights"),
        targets,
    )
    return _samples(node, build, thresholds.dtype), trees, weights


def _ints(node: ir.Node, name: str) -> np.ndarray:
    return np.asarray(node.attributes.get_ints(name, ()), np.int64)


def _require_all(trees: Trees, weights: Weights, targets: Iterable[int]) -> None:
    """Raises an error if a sample may reach no weight for a target, since ONNX Runtime then omits the base value.

    A sample reaches a weight for certain if all leaves of some tree have one.
    """
    for target in targets:
        is_weighted = np.zeros(len(trees.features), np.bool_)
        is_weighted[weights.leaves[weights.ids == target]] = True
        owners, leaves = trees.leaves
        without = np.bincount(owners[~is_weighted[leaves]], minlength=len(trees.roots))
        if without.all():
            raise InapplicableError(f"a sample may reach no leaf that has a weight for target {target}")


def _samples(node: ir.Node, build: NodeBuilder, dtype: np.dtype[Any]) -> ir.Value:
    """Returns the samples [n, F] in the type of the thresholds."""
    x = node.inputs[0]
    if x is not None and x.dtype == ir.DataType.DOUBLE and dtype == np.float64:
        if x.shape is None or x.shape.rank() != 2:
            raise InapplicableError("its input is not a matrix")
        return x
    return matrix(x, build)


def _aggregated(build: NodeBuilder, trees: Trees, x: ir.Value, weights: Weights, function: str) -> ir.Value:
    """Returns the aggregated weights of each sample's leaves: [n, targets]."""
    if function not in _REDUCTIONS:
        raise InapplicableError(f"aggregate_function {function!r} is unknown")
    reached = leaf_weights(build, trees, x, weights, summed=function == "SUM")
    return build.reduce(_REDUCTIONS[function], reached, [1], keepdims=False)
