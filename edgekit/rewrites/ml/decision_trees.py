"""Ensembles of decision trees as standard operators: by matrix products where trees are small, else by gathering.

The two strategies are Hummingbird's GEMM and TreeTraversal (Nakandala et al., "A Tensor Compiler for Unified Machine
Learning Prediction Serving", OSDI 2020). Both compare the same numbers in the same precision as the ensemble does, so
every sample ends at the leaf where it ends there.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrites.ml.tree_nodes import COMPARISONS, KINDS, LEAF, Trees, Weights

INDEX = np.int32
"""The type of node indices: for millions of nodes, half the bytes of int64."""
MOST_LEAVES = 64
"""Trees with more leaves are evaluated by gathering: their products would be larger than what they replace."""
MOST_PRODUCTS = 1 << 22
"""The most multiplications for each sample that products may take."""
MOST_PADDING = 2
"""How many times the number of trees a sum may add up, once every target has equally many."""


def leaf_weights(build: NodeBuilder, trees: Trees, x: ir.Value, weights: Weights, *, summed: bool) -> ir.Value:
    """Returns the weights of the leaves that the trees lead samples x [n, F] to: [n, T, targets].

    Args:
        build: Makes the nodes.
        trees: The trees.
        x: The samples.
        weights: The weights of the leaves.
        summed: Whether only the sums over the trees count: then the second axis may hold other numbers with the same
            sum.

    Raises:
        InapplicableError: The nodes of a tree form a cycle.
    """
    if trees.depth() <= MOST_LEAVES and trees.most_leaves() <= MOST_LEAVES:
        paths = trees.paths()
        leaves = max(len(tree) for tree in paths)
        inner = max(len({at for _, way in tree for at, _ in way}) for tree in paths)
        if leaves <= MOST_LEAVES and len(paths) * leaves * (inner + weights.targets) <= MOST_PRODUCTS:
            table = weights.table(len(trees.features))
            return _by_products(build, trees, x, table, paths, max(inner, 1), leaves)
    return _by_gathering(build, trees, x, weights, summed=summed)


def _by_products(
    build: NodeBuilder,
    trees: Trees,
    x: ir.Value,
    table: np.ndarray,
    paths: list[list[tuple[int, list[tuple[int, bool]]]]],
    inner: int,
    leaves: int,
) -> ir.Value:
    """Evaluates all comparisons at once; by a product, the leaf is found whose path agrees with all of them.

    A comparison that holds counts 1, one that does not -1; the path to a leaf is a column of 1, -1, and 0 for nodes off
    the path.
    """
    count = len(paths)
    chosen = np.full((count, inner), -1)
    ways = np.zeros((count, inner, leaves), np.float32)
    lengths = np.full((count, 1, leaves), np.float32(-1))
    weights = np.zeros((count, leaves, table.shape[1]), table.dtype)
    for tree, of_tree in enumerate(paths):
        columns: dict[int, int] = {}
        for number, (leaf, way) in enumerate(of_tree):
            lengths[tree, 0, number] = len(way)
            weights[tree, number] = table[leaf]
            for at, held in way:
                column = columns.setdefault(at, len(columns))
                chosen[tree, column] = at
                ways[tree, column, number] = 1 if held else -1
    nodes = chosen.ravel()
    features = np.where(nodes < 0, 0, trees.features[nodes])
    values = build("Gather", x, features.astype(np.int64), axis=1)
    outcomes = _held(build, trees, values, nodes[np.newaxis])
    signs = build("Sub", build("Mul", build.cast(outcomes, ir.DataType.FLOAT), np.float32(2)), np.float32(1))
    by_tree = build("Transpose", build("Reshape", signs, [-1, count, inner]), perm=[1, 0, 2])
    agreeing = build("MatMul", by_tree, ways)
    reached = build("Greater", agreeing, (lengths - np.float32(0.5)) + np.where(lengths < 0, np.float32(1e9), 0))
    dtype = ir.DataType.from_numpy(table.dtype)
    found = build("MatMul", build.cast(reached, dtype), weights)
    return build("Transpose", found, perm=[1, 0, 2])


def _by_gathering(build: NodeBuilder, trees: Trees, x: ir.Value, weights: Weights, *, summed: bool) -> ir.Value:
    """Moves all samples down all trees, one level at a time.

    If every tree votes for one target and only sums count, the trees are put in rows with one for each target, and a
    node holds a number in place of a row of them.
    """
    order = _in_rows(trees, weights) if summed and weights.targets > 1 else None
    roots = trees.roots if order is None else np.append(trees.roots, len(trees.features))[order]
    if order is not None:
        trees = _with_leaf_of_nothing(trees)
    rows = build.slice(build("Shape", x), [0], [1], [0])
    at = build("Expand", roots.astype(INDEX).reshape(1, -1), build("Concat", rows, [len(roots)], axis=0))
    features, when_true, when_false = (
        build.value(array.astype(INDEX)) for array in (trees.features, trees.when_true, trees.when_false)
    )
    held = _HeldAt(build, trees)
    for _ in range(trees.depth()):
        values = _at_each(build, x, build("Gather", features, at), int(trees.features.max()) + 1)
        at = build("Where", held(values, at), build("Gather", when_true, at), build("Gather", when_false, at))
    if order is None:
        return build("Gather", weights.table(len(trees.features)), at, axis=0)
    numbers = np.zeros(len(trees.features), weights.weights.dtype)
    np.add.at(numbers, weights.leaves, weights.weights)
    return build("Reshape", build("Gather", numbers, at), [-1, len(order) // weights.targets, weights.targets])


def _in_rows(trees: Trees, weights: Weights) -> np.ndarray | None:
    """Returns tree indices in rows with one for each target; the number of trees where a target has none left.

    Returns:
        None if a tree votes for several targets, or targets have very different numbers of trees.
    """
    owners, leaves = trees.leaves
    target = np.full(len(trees.features), -1)
    target[weights.leaves] = weights.ids
    if (target[weights.leaves] != weights.ids).any():
        return None
    owners, leaves = owners[target[leaves] >= 0], leaves[target[leaves] >= 0]
    of_tree = np.zeros(len(trees.roots), np.int64)
    of_tree[owners] = target[leaves]
    if (of_tree[owners] != target[leaves]).any():
        return None
    most = int(np.bincount(of_tree, minlength=weights.targets).max())
    if most * weights.targets > MOST_PADDING * len(trees.roots):
        return None
    rows = np.full((most, weights.targets), len(trees.roots))
    for each in range(weights.targets):
        of_target = np.flatnonzero(of_tree == each)
        rows[: len(of_target), each] = of_target
    return rows.ravel()


def _with_leaf_of_nothing(trees: Trees) -> Trees:
    """Returns the trees with one more node at the end, a leaf without a weight."""
    count = len(trees.features)
    return Trees(
        np.append(trees.features, 0),
        np.append(trees.thresholds, trees.thresholds.dtype.type(0)),
        np.append(trees.kinds_of_nodes, np.int8(KINDS.index(LEAF))),
        np.append(trees.when_true, count),
        np.append(trees.when_false, count),
        np.append(trees.missing_is_true, False),
        trees.roots,
    )


def _at_each(build: NodeBuilder, x: ir.Value, features: ir.Value, count: int) -> ir.Value:
    """Returns the values [n, T] of x [n, F] at the features [n, T], which are below ``count``."""
    if build.opset >= 11:
        return build("GatherElements", x, features, axis=1)
    rows, width = (size if isinstance(size, int) else None for size in x.shape or (None, None))
    if rows is not None and width is not None:
        starts = np.arange(rows, dtype=INDEX)[:, np.newaxis] * INDEX(width)
        return build("Gather", build("Reshape", x, [-1]), build("Add", features, starts))
    is_asked = build("Equal", build.unsqueeze(features, [2]), np.arange(count, dtype=INDEX))
    row = build.unsqueeze(build.slice(x, [0], [count], [1]), [1])
    return build.reduce("ReduceSum", build("Where", is_asked, row, np.float32(0)), [2], keepdims=False)


def _held(build: NodeBuilder, trees: Trees, values: ir.Value, nodes: np.ndarray) -> ir.Value:
    """Returns whether comparisons [n, K] hold, for values and the nodes [1, K] that compare them; -1 is no node."""
    kinds = trees.kinds_of_nodes[nodes]
    thresholds = np.where(nodes < 0, 0, trees.thresholds[nodes]).astype(trees.thresholds.dtype)
    is_missing = build("IsNaN", values)
    result: ir.Value | None = None
    for kind in trees.kinds or ["BRANCH_LEQ"]:
        outcome = _compared(build, kind, values, thresholds, is_missing)
        mask = (kinds == KINDS.index(kind)) & (nodes >= 0)
        if len(trees.kinds) > 1:
            outcome = build("And", outcome, mask)
        result = outcome if result is None else build("Or", result, outcome)
    assert result is not None
    tracked = np.where(nodes < 0, False, trees.missing_is_true[nodes]).astype(np.bool_)
    return build("Or", result, build("And", is_missing, tracked)) if tracked.any() else result


class _HeldAt:
    """Tells whether comparisons [n, T] hold, for values and the nodes [n, T] that compare them.

    Args:
        build: Makes the nodes, and once for all levels what they look up.
        trees: The trees, with at least one comparison.
    """

    def __init__(self, build: NodeBuilder, trees: Trees) -> None:
        self._build = build
        self._thresholds = build.value(trees.thresholds)
        several = len(trees.kinds) > 1
        self._of_kinds = {
            kind: build.value((trees.kinds_of_nodes == KINDS.index(kind)).astype(INDEX)) if several else None
            for kind in trees.kinds
        }
        tracked = trees.missing_is_true
        self._tracked = build.value(tracked.astype(INDEX)) if tracked.any() else None

    def __call__(self, values: ir.Value, at: ir.Value) -> ir.Value:
        build = self._build
        thresholds = build("Gather", self._thresholds, at)
        is_missing = build("IsNaN", values)
        result: ir.Value | None = None
        for kind, of_kind in self._of_kinds.items():
            outcome = _compared(build, kind, values, thresholds, is_missing)
            if of_kind is not None:
                outcome = build("And", outcome, build.cast(build("Gather", of_kind, at), ir.DataType.BOOL))
            result = outcome if result is None else build("Or", result, outcome)
        assert result is not None
        if self._tracked is None:
            return result
        tracked = build.cast(build("Gather", self._tracked, at), ir.DataType.BOOL)
        return build("Or", result, build("And", is_missing, tracked))


def _compared(
    build: NodeBuilder, kind: str, values: ir.Value, thresholds: ir.Value | np.ndarray, is_missing: ir.Value
) -> ir.Value:
    operator, is_negated = COMPARISONS[kind]
    if operator == "Equal" and build.opset < 11:
        apart = build("Or", build("Less", values, thresholds), build("Greater", values, thresholds))
        outcome, is_negated = build("Or", apart, is_missing), not is_negated
        return build("Not", outcome) if is_negated else outcome
    outcome = build(operator, values, thresholds)
    if not is_negated:
        return outcome
    # NaN fails every comparison but "not equal"
    return build("Not", outcome if operator == "Equal" else build("Or", outcome, is_missing))
