"""Ensembles of decision trees as standard operators: by matrix products where trees are small, else by gathering.

The two strategies are Hummingbird's GEMM and TreeTraversal (Nakandala et al., "A Tensor Compiler for Unified Machine
Learning Prediction Serving", OSDI 2020). Both compare the same numbers in the same precision as the ensemble does, so
every sample ends at the leaf where it ends there.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError

LEAF = "LEAF"
MEMBER = "BRANCH_MEMBER"
COMPARISONS: Mapping[str, tuple[str, bool]] = {
    "BRANCH_LEQ": ("Greater", True),
    "BRANCH_LT": ("Less", False),
    "BRANCH_GTE": ("Less", True),
    "BRANCH_GT": ("Greater", False),
    "BRANCH_EQ": ("Equal", False),
    "BRANCH_NEQ": ("Equal", True),
}
"""By kind of node: the comparison of a feature with the threshold that sends a sample to the true branch, and whether
it is negated; negated ones take numbers that are none (NaN) apart."""

MOST_LEAVES = 64
"""Trees with more leaves are gathered: their products would be larger than what they replace."""
MOST_PRODUCTS = 1 << 22
"""Multiplications a sample that products may take."""


@dataclass(frozen=True)
class Trees:
    """The nodes of all trees, one element each; a leaf's children are the leaf itself."""

    features: np.ndarray
    thresholds: np.ndarray
    """In the type that they are compared in."""
    modes: tuple[str, ...]
    when_true: np.ndarray
    when_false: np.ndarray
    missing_is_true: np.ndarray
    """Whether NaN goes to the true branch, whatever the comparison says."""
    roots: np.ndarray
    """One a tree."""

    def __post_init__(self) -> None:
        unknown = {mode for mode in self.modes if mode != LEAF} - COMPARISONS.keys()
        if unknown:
            raise InapplicableError(f"the comparison {sorted(unknown)[0]!r} is unknown")

    @property
    def kinds(self) -> list[str]:
        """The comparisons that occur."""
        return sorted(set(self.modes) - {LEAF})

    def depth(self) -> int:
        """The most comparisons on the way from a root to a leaf."""
        level, depth = set(self.roots.tolist()), -1
        while level:
            depth += 1
            if depth > len(self.modes):
                raise InapplicableError("a tree's nodes go in a circle")
            inner = [at for at in level if self.modes[at] != LEAF]
            level = {int(child[at]) for child in (self.when_true, self.when_false) for at in inner}
        return depth

    def paths(self) -> list[list[tuple[int, list[tuple[int, bool]]]]]:
        """For each tree its leaves, each with the nodes on the way to it and whether each comparison held."""
        self.depth()  # raises where the walk would not end
        found = []
        for root in self.roots.tolist():
            leaves: list[tuple[int, list[tuple[int, bool]]]] = []
            waiting: list[tuple[int, list[tuple[int, bool]]]] = [(root, [])]
            while waiting:
                at, way = waiting.pop()
                if self.modes[at] == LEAF:
                    leaves.append((at, way))
                    continue
                waiting.append((int(self.when_false[at]), [*way, (at, False)]))
                waiting.append((int(self.when_true[at]), [*way, (at, True)]))
            found.append(leaves)
        return found


def leaf_weights(build: NodeBuilder, trees: Trees, x: ir.Value, table: np.ndarray) -> ir.Value:
    """The rows of ``table`` [nodes, targets] of the leaves that the trees lead samples x [n, F] to: [n, T, targets]."""
    paths = trees.paths() if trees.depth() <= MOST_LEAVES else None
    if paths is not None:
        leaves = max(len(tree) for tree in paths)
        inner = max(len({at for _, way in tree for at, _ in way}) for tree in paths)
        if leaves <= MOST_LEAVES and len(paths) * leaves * (inner + table.shape[1]) <= MOST_PRODUCTS:
            return _by_products(build, trees, x, table, paths, max(inner, 1), leaves)
    return _by_gathering(build, trees, x, table)


def _by_products(
    build: NodeBuilder,
    trees: Trees,
    x: ir.Value,
    table: np.ndarray,
    paths: list[list[tuple[int, list[tuple[int, bool]]]]],
    inner: int,
    leaves: int,
) -> ir.Value:
    """All comparisons at once; the leaf whose way they agree with is the one where a product counts all of them.

    A held comparison counts 1, one that did not -1; the way to a leaf is a column of 1, -1, and 0 for nodes off it.
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


def _by_gathering(build: NodeBuilder, trees: Trees, x: ir.Value, table: np.ndarray) -> ir.Value:
    """All trees of all samples go down one level at a time."""
    rows = build.slice(build("Shape", x), [0], [1], [0])
    at = build("Expand", trees.roots.astype(np.int64).reshape(1, -1), build("Concat", rows, [len(trees.roots)], axis=0))
    for _ in range(trees.depth()):
        values = _at_each(build, x, build("Gather", trees.features.astype(np.int64), at), int(trees.features.max()) + 1)
        held = _held_at(build, trees, values, at)
        children = (build("Gather", child.astype(np.int64), at) for child in (trees.when_true, trees.when_false))
        at = build("Where", held, *children)
    return build("Gather", table, at, axis=0)


def _at_each(build: NodeBuilder, x: ir.Value, features: ir.Value, count: int) -> ir.Value:
    """The values [n, T] of x [n, F] at the features [n, T], of which the first ``count`` occur."""
    if build.opset >= 11:
        return build("GatherElements", x, features, axis=1)
    is_asked = build("Equal", build.unsqueeze(features, [2]), np.arange(count))
    row = build.unsqueeze(build.slice(x, [0], [count], [1]), [1])
    return build.reduce("ReduceSum", build("Where", is_asked, row, np.float32(0)), [2], keepdims=False)


def _held(build: NodeBuilder, trees: Trees, values: ir.Value, nodes: np.ndarray) -> ir.Value:
    """Whether comparisons [n, K] hold, for values and the nodes [1, K] that compare them; -1 is none."""
    modes = np.array(trees.modes, np.object_)[nodes]
    thresholds = np.where(nodes < 0, 0, trees.thresholds[nodes]).astype(trees.thresholds.dtype)
    is_missing = build("IsNaN", values)
    result: ir.Value | None = None
    for kind in trees.kinds or ["BRANCH_LEQ"]:
        outcome = _compared(build, kind, values, thresholds, is_missing)
        mask = (modes == kind) & (nodes >= 0)
        if len(trees.kinds) > 1:
            outcome = build("And", outcome, mask)
        result = outcome if result is None else build("Or", result, outcome)
    assert result is not None
    tracked = np.where(nodes < 0, False, trees.missing_is_true[nodes]).astype(np.bool_)
    return build("Or", result, build("And", is_missing, tracked)) if tracked.any() else result


def _held_at(build: NodeBuilder, trees: Trees, values: ir.Value, at: ir.Value) -> ir.Value:
    """Whether comparisons [n, T] hold, for values and the nodes [n, T] that compare them."""
    thresholds = build("Gather", trees.thresholds, at)
    is_missing = build("IsNaN", values)
    result: ir.Value | None = None
    for kind in trees.kinds:
        outcome = _compared(build, kind, values, thresholds, is_missing)
        if len(trees.kinds) > 1:
            of_kind = np.array([mode == kind for mode in trees.modes], np.int64)
            outcome = build("And", outcome, build.cast(build("Gather", of_kind, at), ir.DataType.BOOL))
        result = outcome if result is None else build("Or", result, outcome)
    assert result is not None
    if not trees.missing_is_true.any():
        return result
    tracked = build.cast(build("Gather", trees.missing_is_true.astype(np.int64), at), ir.DataType.BOOL)
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


def without_memberships(trees: Mapping[str, list[Any]], members: np.ndarray) -> None:
    """Makes nodes that ask for membership in a set chains of nodes that ask for equality, one a member, in place.

    Args:
        trees: The columns of the nodes by name: ``modes``, ``thresholds``, ``when_true``, ``when_false`` and others.
        members: The sets of the membership nodes in their order, NaN after each.
    """
    ends = [-1, *np.flatnonzero(np.isnan(members))]
    sets = [members[begin + 1 : end] for begin, end in itertools.pairwise(ends)]
    asking = [place for place, mode in enumerate(trees["modes"]) if mode == MEMBER]
    for place, numbers in zip(asking, sets, strict=False):
        count = len(trees["modes"])
        chain = [place, *range(count, count + len(numbers) - 1)]
        for column in trees.values():
            column.extend([column[place]] * (len(numbers) - 1))
        outside = trees["when_false"][place]
        for at, after, number in zip(chain, [*chain[1:], outside], numbers, strict=True):
            trees["modes"][at], trees["thresholds"][at], trees["when_false"][at] = "BRANCH_EQ", float(number), after


def places_of(tree_ids: Sequence[int], node_ids: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where in the list of nodes each node is."""
    return {key: place for place, key in enumerate(zip(tree_ids, node_ids, strict=True))}


def weight_table(count: int, targets: int, nodes: Sequence[int], ids: Sequence[int], weights: np.ndarray) -> np.ndarray:
    """Weights [nodes, targets] of lists of them, summed where a leaf has several for a target."""
    table = np.zeros((count, targets), weights.dtype)
    np.add.at(table, (np.asarray(nodes, np.intp), np.asarray(ids, np.intp)), weights)
    return table
