"""The nodes of decision trees as arrays, whichever form of the operator they come from."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

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
it is negated; negated comparisons treat NaN separately."""

KINDS = (*COMPARISONS, LEAF)
"""The kinds of nodes; :attr:`Trees.kinds_of_nodes` holds indices into this tuple."""


@dataclass(frozen=True)
class Trees:
    """The nodes of all trees, one element each; a leaf's children are the leaf itself."""

    features: np.ndarray
    thresholds: np.ndarray
    """The thresholds, in the type in which they are compared."""
    kinds_of_nodes: np.ndarray
    """Indices into :data:`KINDS`."""
    when_true: np.ndarray
    when_false: np.ndarray
    missing_is_true: np.ndarray
    """Whether NaN goes to the true branch, whatever the comparison says."""
    roots: np.ndarray
    """The root of each tree."""

    @property
    def kinds(self) -> list[str]:
        """The comparisons that occur."""
        return sorted({KINDS[kind] for kind in np.unique(self.kinds_of_nodes)} - {LEAF})

    @cached_property
    def is_leaf(self) -> np.ndarray:
        """Which nodes are leaves."""
        return np.asarray(self.kinds_of_nodes == KINDS.index(LEAF))

    @cached_property
    def levels(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each number of comparisons before them, the trees and the nodes that a sample may reach, each pair once.

        Raises:
            InapplicableError: The nodes of a tree form a cycle, or there is no root.
        """
        if not len(self.roots):
            raise InapplicableError("no node is the root of a tree")
        owners, nodes, found = np.arange(len(self.roots)), self.roots, []
        while len(nodes):
            found.append((owners, nodes))
            if len(found) > len(self.features):
                raise InapplicableError("a tree's nodes go in a circle")
            inner = ~self.is_leaf[nodes]
            below = np.concatenate([self.when_true[nodes[inner]], self.when_false[nodes[inner]]])
            keys = np.unique(np.tile(owners[inner], 2) * len(self.features) + below)
            owners, nodes = np.divmod(keys, len(self.features))
        return found

    @cached_property
    def leaves(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of trees, and the leaves that they lead to."""
        owners, nodes = (np.concatenate(each) for each in zip(*self.levels, strict=True))
        return owners[self.is_leaf[nodes]], nodes[self.is_leaf[nodes]]

    def depth(self) -> int:
        """The most comparisons on the way from a root to a leaf."""
        return len(self.levels) - 1

    def most_leaves(self) -> int:
        """The leaves of the largest tree."""
        return int(np.bincount(self.leaves[0]).max())

    def paths(self) -> list[list[tuple[int, list[tuple[int, bool]]]]]:
        """Returns the leaves of each tree, each with the nodes on the path to it and whether each comparison held."""
        self.depth()  # raises where the walk would not end
        found = []
        for root in self.roots.tolist():
            leaves: list[tuple[int, list[tuple[int, bool]]]] = []
            waiting: list[tuple[int, list[tuple[int, bool]]]] = [(root, [])]
            while waiting:
                at, way = waiting.pop()
                if self.is_leaf[at]:
                    leaves.append((at, way))
                    continue
                waiting.append((int(self.when_false[at]), [*way, (at, False)]))
                waiting.append((int(self.when_true[at]), [*way, (at, True)]))
            found.append(leaves)
        return found


@dataclass(frozen=True)
class Weights:
    """The weights of leaves, as a list; several entries for a leaf and a target are summed."""

    leaves: np.ndarray
    """Indices of nodes."""
    ids: np.ndarray
    """Indices of targets."""
    weights: np.ndarray
    targets: int
    """How many targets there are."""

    def table(self, count: int) -> np.ndarray:
        """Returns the weights as a table [nodes, targets]."""
        table = np.zeros((count, self.targets), self.weights.dtype)
        np.add.at(table, (self.leaves, self.ids), self.weights)
        return table


def kinds_of(modes: Sequence[str]) -> np.ndarray:
    """Returns the indices in :data:`KINDS` of nodes' modes.

    Raises:
        InapplicableError: A mode is not in :data:`KINDS`.
    """
    places = {kind: place for place, kind in enumerate(KINDS)}
    try:
        return np.fromiter((places[mode] for mode in modes), np.int8, len(modes))
    except KeyError as error:
        raise InapplicableError(f"the comparison {error.args[0]!r} is unknown") from None


class Places:
    """Finds the index of a node by the ids of its tree and of the node itself; of equal nodes the last counts.

    Args:
        tree_ids: The ids of the nodes' trees.
        node_ids: The ids of the nodes.
    """

    def __init__(self, tree_ids: np.ndarray, node_ids: np.ndarray) -> None:
        self._trees, of_trees = np.unique(tree_ids, return_inverse=True)
        self._nodes, of_nodes = np.unique(node_ids, return_inverse=True)
        keys = of_trees * len(self._nodes) + of_nodes
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def of(self, tree_ids: np.ndarray, node_ids: np.ndarray) -> np.ndarray:
        """Returns the indices of nodes.

        Raises:
            InapplicableError: There is no such node.
        """
        if not len(tree_ids):
            return np.zeros(0, np.int64)
        if not len(self._keys):
            raise InapplicableError("it has no nodes")
        trees, nodes = np.searchsorted(self._trees, tree_ids), np.searchsorted(self._nodes, node_ids)
        trees, nodes = np.minimum(trees, len(self._trees) - 1), np.minimum(nodes, len(self._nodes) - 1)
        keys = trees * len(self._nodes) + nodes
        found = np.maximum(np.searchsorted(self._keys, keys, side="right") - 1, 0)
        missing = (self._trees[trees] != tree_ids) | (self._nodes[nodes] != node_ids) | (self._keys[found] != keys)
        if missing.any():
            first = int(np.flatnonzero(missing)[0])
            raise InapplicableError(f"tree {tree_ids[first]} has no node {node_ids[first]}")
        return self._order[found]


def without_memberships(trees: Mapping[str, list[Any]], members: np.ndarray) -> None:
    """Replaces each test of membership in a set by a chain of tests of equality, one for each member, in place.

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
