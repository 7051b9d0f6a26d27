"""Tree ensembles of ``ai.onnx.ml``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value
from edgekit_mil.ops.ml.features import DOMAIN, as_float
from edgekit_mil.support.class_scores import best_label, labelled, require_numbers, transformed
from edgekit_mil.support.tree_descent import (
    LEAF,
    MEMBER,
    Nodes,
    aggregated,
    places_of,
    weight_table,
    without_memberships,
)

AGGREGATE_FUNCTIONS = ("AVERAGE", "SUM", "MIN", "MAX")
POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
COMPARISON_CODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", MEMBER)


@lowering("TreeEnsembleRegressor", versions=[1, 3], domain=DOMAIN)
def tree_ensemble_regressor(
    ctx: Context,
    x: Value,
    *,
    aggregate_function: str = "SUM",
    base_values: Sequence[float] = (),
    base_values_as_tensor: np.ndarray | None = None,
    n_targets: int = 1,
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_hitrates: Sequence[float] = (),
    nodes_hitrates_as_tensor: np.ndarray | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: Sequence[str],
    nodes_nodeids: Sequence[int],
    nodes_treeids: Sequence[int],
    nodes_truenodeids: Sequence[int],
    nodes_values: Sequence[float] = (),
    nodes_values_as_tensor: np.ndarray | None = None,
    post_transform: str = "NONE",
    target_ids: Sequence[int],
    target_nodeids: Sequence[int],
    target_treeids: Sequence[int],
    target_weights: Sequence[float] = (),
    target_weights_as_tensor: np.ndarray | None = None,
) -> Var:
    """For each of the samples x [n, F], the weights of the leaves that its features lead to: [n, targets]."""
    nodes = Nodes.parsed(
        nodes_treeids,
        nodes_nodeids,
        nodes_featureids,
        _array(nodes_values, nodes_values_as_tensor),
        nodes_modes,
        nodes_truenodeids,
        nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )
    places = places_of(nodes_treeids, nodes_nodeids)
    leaves = [places[key] for key in zip(target_treeids, target_nodeids, strict=True)]
    if aggregate_function in ("MIN", "MAX") and len(leaves) != nodes_modes.count("LEAF") * n_targets:
        raise Unsupported(f"the {aggregate_function} of leaves that have no weight for some targets")
    weights = _array(target_weights, target_weights_as_tensor)
    table = weight_table(len(nodes_modes), n_targets, leaves, target_ids, weights)
    scores = aggregated(nodes.leaves_of(_matrix(x)), table, aggregate_function)
    return transformed(_with_base(scores, _array(base_values, base_values_as_tensor)), post_transform)


@lowering("TreeEnsembleClassifier", versions=[1, 3], domain=DOMAIN, note="integer labels")
def tree_ensemble_classifier(
    ctx: Context,
    x: Value,
    *,
    base_values: Sequence[float] = (),
    base_values_as_tensor: np.ndarray | None = None,
    class_ids: Sequence[int],
    class_nodeids: Sequence[int],
    class_treeids: Sequence[int],
    class_weights: Sequence[float] = (),
    class_weights_as_tensor: np.ndarray | None = None,
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_hitrates: Sequence[float] = (),
    nodes_hitrates_as_tensor: np.ndarray | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: Sequence[str],
    nodes_nodeids: Sequence[int],
    nodes_treeids: Sequence[int],
    nodes_truenodeids: Sequence[int],
    nodes_values: Sequence[float] = (),
    nodes_values_as_tensor: np.ndarray | None = None,
    post_transform: str = "NONE",
) -> tuple[Value | None, Var]:
    """The label [n] of the greatest sum of leaves' weights, and the sums [n, classes].

    Of two classes, all weights may be of one: they are the probability of the second, or its score where any of them
    is negative.
    """
    require_numbers(ctx.output_used[0], classlabels_int64s, classlabels_strings)
    nodes = Nodes.parsed(
        nodes_treeids,
        nodes_nodeids,
        nodes_featureids,
        _array(nodes_values, nodes_values_as_tensor),
        nodes_modes,
        nodes_truenodeids,
        nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )
    classes = len(classlabels_int64s) or len(classlabels_strings)
    base = _array(base_values, base_values_as_tensor)
    weights = _array(class_weights, class_weights_as_tensor)
    is_probability = not (weights < 0).any()
    one_sided = classes == 2 and len(set(class_ids)) == 1
    if one_sided:
        _require_agreement(class_ids[0], base.size, post_transform, is_probability)
    elif classes == 2 and ctx.output_used[0]:
        raise Unsupported("the label of two classes that both have weights, which runtimes choose in different ways")
    places = places_of(nodes_treeids, nodes_nodeids)
    leaves = [places[key] for key in zip(class_treeids, class_nodeids, strict=True)]
    table = weight_table(len(nodes_modes), 1 if one_sided else classes, leaves, class_ids, weights)
    scores = _with_base(aggregated(nodes.leaves_of(_matrix(x)), table, "SUM"), base)
    if not one_sided:
        label = best_label(scores, classlabels_int64s) if ctx.output_used[0] else None
        return label, transformed(scores, post_transform)
    label = None
    if ctx.output_used[0]:
        second = mb.greater(x=mb.squeeze(x=scores, axes=[1]), y=0.5 if is_probability else 0.0)
        label = labelled(mb.cast(x=second, dtype="int32"), classlabels_int64s)
    first = mb.sub(x=1.0, y=scores) if is_probability else mb.mul(x=scores, y=-1.0)
    return label, transformed(mb.concat(values=[first, scores], axis=1), post_transform)


@lowering("TreeEnsemble", versions=[5], domain=DOMAIN)
def tree_ensemble(
    ctx: Context,
    x: Value,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Sequence[int],
    leaf_weights: np.ndarray,
    membership_values: np.ndarray | None = None,
    n_targets: int = 1,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_hitrates: np.ndarray | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: np.ndarray,
    nodes_splits: np.ndarray,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    post_transform: int = 0,
    tree_roots: Sequence[int],
) -> Var:
    """For each of the samples x [n, F], the weights of the leaves that its features lead to: [n, targets].

    A leaf has a weight for one target.
    """
    inner, leaves = len(nodes_modes), len(leaf_weights)
    function = AGGREGATE_FUNCTIONS[aggregate_function]
    if function in ("MIN", "MAX") and n_targets > 1:
        raise Unsupported(f"the {function} of leaves that have no weight for some targets")
    itself = list(range(inner, inner + leaves))
    children = [
        [child + inner if leaf else child for child, leaf in zip(numbers, are_leaves, strict=True)] + itself
        for numbers, are_leaves in ((nodes_truenodeids, nodes_trueleafs), (nodes_falsenodeids, nodes_falseleafs))
    ]
    nodes = Nodes(
        np.array([*nodes_featureids, *[0] * leaves], np.int32),
        np.array([*nodes_splits, *[0] * leaves], np.float32),
        (*(COMPARISON_CODES[mode] for mode in nodes_modes), *[LEAF] * leaves),
        np.array(children[0], np.int32),
        np.array(children[1], np.int32),
        np.array([*(nodes_missing_value_tracks_true or [0] * inner), *[0] * leaves], np.bool_),
        np.array(tree_roots, np.int32),
    )
    if membership_values is not None:
        nodes = without_memberships(nodes, membership_values)
    table = weight_table(len(nodes.modes), n_targets, itself, leaf_targetids, leaf_weights)
    return transformed(aggregated(nodes.leaves_of(_matrix(x)), table, function), POST_TRANSFORMS[post_transform])


def _require_agreement(class_id: int, bases: int, post_transform: str, is_probability: bool) -> None:
    """Raise Unsupported for weights of one of two classes that runtimes do not agree on."""
    expected = "NONE" if is_probability else "LOGISTIC"
    if class_id != 0 or bases > 1 or post_transform != expected:
        raise Unsupported(
            f"weights of class {class_id} of two with post_transform {post_transform} and {bases} base values, "
            "which runtimes take in different ways"
        )


def _matrix(x: Value) -> Var:
    """Samples [n, F] in float32.

    Raises:
        Unsupported: Another rank.
    """
    if x.rank != 2:
        raise Unsupported(f"features in a tensor of rank {x.rank}, there is a lowering of matrices")
    return as_float(x)


def _array(numbers: Sequence[float], tensor: np.ndarray | None) -> np.ndarray:
    """What is given as a list or as a tensor."""
    return np.asarray(numbers if tensor is None else tensor, np.float32)


def _with_base(scores: Var, base: np.ndarray) -> Var:
    """Scores plus base values, if there are any."""
    return mb.add(x=scores, y=base.reshape(1, -1)) if base.size else scores
