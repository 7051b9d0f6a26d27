"""Ensembles of decision trees: all trees of all samples go down one level at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgekit_mil.core.exactness import EXACT
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import Unsupported

COMPARISONS: Mapping[str, Callable[..., Var]] = {
    "BRANCH_LEQ": mb.less_equal,
    "BRANCH_LT": mb.less,
    "BRANCH_GTE": mb.greater_equal,
    "BRANCH_GT": mb.greater,
    "BRANCH_EQ": mb.equal,
    "BRANCH_NEQ": mb.not_equal,
}
LEAF = "LEAF"
MEMBER = "BRANCH_MEMBER"


@dataclass(frozen=True)
class Nodes:
    """The nodes of all trees, one element each; a leaf's children are the leaf itself."""

    features: np.ndarray
    thresholds: np.ndarray
    modes: tuple[str, ...]
    when_true: np.ndarray
    when_false: np.ndarray
    missing_is_true: np.ndarray
    """Whether NaN goes to the true branch, whatever the comparison says."""
    roots: np.ndarray
    """One a tree."""

    @classmethod
    def parsed(
        cls,
        tree_ids: Sequence[int],
        node_ids: Sequence[int],
        features: Sequence[int],
        thresholds: np.ndarray,
        modes: Sequence[str],
        when_true: Sequence[int],
        when_false: Sequence[int],
        missing_is_true: Sequence[int],
    ) -> Nodes:
        """The nodes as TreeEnsembleRegressor and TreeEnsembleClassifier list them, children by tree and number."""
        places = places_of(tree_ids, node_ids)
        own = range(len(modes))
        true_child, false_child = (
            np.array([at if modes[at] == LEAF else places[tree_ids[at], numbers[at]] for at in own], np.int32)
            for numbers in (when_true, when_false)
        )
        inner = [at for at in own if modes[at] != LEAF]
        below = {int(child[at]) for child in (true_child, false_child) for at in inner}
        return cls(
            np.asarray(features, np.int32),
            np.asarray(thresholds, np.float32),
            tuple(modes),
            true_child,
            false_child,
            np.asarray(missing_is_true or [0] * len(modes), np.bool_),
            np.array([at for at in own if at not in below], np.int32),
        )

    @property
    def depth(self) -> int:
        """The most comparisons on the way from a root to a leaf."""
        level, depth = set(self.roots.tolist()), -1
        while level:
            depth += 1
            if depth > len(self.modes):
                raise Unsupported("a tree whose nodes go in a circle")
            inner = [at for at in level if self.modes[at] != LEAF]
            level = {int(child[at]) for child in (self.when_true, self.when_false) for at in inner}
        return depth

    def leaves_of(self, x: Var) -> Var:
        """The leaf [n, T] that each tree leads each of the samples [n, F] to."""
        kinds = sorted({mode for mode in self.modes if mode != LEAF})
        unknown = [mode for mode in kinds if mode not in COMPARISONS]
        if unknown:
            raise Unsupported(f"unknown comparison {unknown[0]!r}")
        at = mb.const(val=np.tile(self.roots, (x.shape[0], 1)))
        for _ in range(self.depth):
            value = mb.gather_along_axis(x=x, indices=_looked_up(self.features, at), axis=1, name=EXACT)
            goes = self._outcomes(value, at, kinds)
            at = mb.select(cond=goes, a=_looked_up(self.when_true, at), b=_looked_up(self.when_false, at))
        return at

    def _outcomes(self, value: Var, at: Var, kinds: Sequence[str]) -> Var:
        """Whether each value goes to the true branch of its node."""
        threshold = _looked_up(self.thresholds, at)
        goes = None
        for kind in kinds:
            outcome = COMPARISONS[kind](x=value, y=threshold, name=EXACT)
            if len(kinds) > 1:
                of_kind = np.array([mode == kind for mode in self.modes], np.int32)
                outcome = mb.logical_and(x=outcome, y=mb.cast(x=_looked_up(of_kind, at), dtype="bool"))
            goes = outcome if goes is None else mb.logical_or(x=goes, y=outcome)
        if self.missing_is_true.any():
            tracked = mb.cast(x=_looked_up(self.missing_is_true.astype(np.int32), at), dtype="bool")
            missing = mb.logical_and(x=mb.not_equal(x=value, y=value, name=EXACT), y=tracked)
            goes = mb.logical_or(x=goes, y=missing)
        return goes


def without_memberships(nodes: Nodes, members: np.ndarray) -> Nodes:
    """Nodes that ask for membership in a set as chains of nodes that ask for equality, one a member.

    Args:
        nodes: The nodes.
        members: The sets of the membership nodes in their order, NaN after each.
    """
    ends = [-1, *np.flatnonzero(np.isnan(members))]
    sets = [members[begin + 1 : end] for begin, end in itertools.pairwise(ends)]
    asking = [place for place, mode in enumerate(nodes.modes) if mode == MEMBER]
    columns = (nodes.features, nodes.thresholds, nodes.modes, nodes.when_true, nodes.when_false, nodes.missing_is_true)
    rows = list(zip(*columns, strict=True))
    for place, numbers in zip(asking, sets, strict=True):
        feature, _, _, inside, outside, missing = rows[place]
        chain = [place, *range(len(rows), len(rows) + len(numbers) - 1)]
        rows += [rows[place]] * (len(numbers) - 1)
        for at, after, number in zip(chain, [*chain[1:], outside], numbers, strict=True):
            rows[at] = (feature, number, "BRANCH_EQ", inside, after, missing)
    features, thresholds, modes, when_true, when_false, missing_is_true = zip(*rows, strict=True)
    return Nodes(
        np.array(features, np.int32),
        np.array(thresholds, np.float32),
        modes,
        np.array(when_true, np.int32),
        np.array(when_false, np.int32),
        np.array(missing_is_true, np.bool_),
        nodes.roots,
    )


def places_of(tree_ids: Sequence[int], node_ids: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where in the list of nodes each node is."""
    return {key: place for place, key in enumerate(zip(tree_ids, node_ids, strict=True))}


def weight_table(count: int, targets: int, nodes: Sequence[int], ids: Sequence[int], weights: np.ndarray) -> np.ndarray:
    """Weights [nodes, targets] of lists of them, summed where a leaf has several for a target."""
    table = np.zeros((count, targets), np.float32)
    np.add.at(table, (np.asarray(nodes, np.intp), np.asarray(ids, np.intp)), np.asarray(weights, np.float32))
    return table


def aggregated(leaves: Var, table: np.ndarray, function: str) -> Var:
    """The weights [n, targets] of the leaves [n, T] that the trees lead to, put together.

    Raises:
        Unsupported: There is no such function.
    """
    weights = mb.gather(x=table, indices=leaves, axis=0)
    reduce = {"SUM": mb.reduce_sum, "AVERAGE": mb.reduce_mean, "MIN": mb.reduce_min, "MAX": mb.reduce_max}.get(function)
    if reduce is None:
        raise Unsupported(f"unknown aggregate_function {function!r}")
    return reduce(x=weights, axes=[1], keep_dims=False)


def _looked_up(table: np.ndarray, at: Var) -> Var:
    """Each node's entry."""
    return mb.gather(x=table, indices=at, axis=0, name=EXACT)
